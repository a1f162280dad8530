from collections.abc import AsyncIterable, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.apps.files.tools import files
from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.output import End
from nextcloud_mcp_server.documents.process import Extract
from nextcloud_mcp_server.documents.worker import SMALL_BYTES
from nextcloud_mcp_server.errors import InvalidInput, NotFound, Unreachable
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.documents import KEPT_BYTES, KEPT_SECONDS, MAX_DOCUMENT_BYTES, Documents
from nextcloud_mcp_server.tools.file_results import FileFacts, FileText
from tests import document_files
from tests.dav_fakes import (
    MOMENT,
    SECONDS,
    ProgressLog,
    account_in,
    account_over,
    account_through,
    call_with,
    entry,
    multistatus,
    network,
)

Report = Callable[[int, int], Awaitable[None]]


class Reader:
    """Reads in this process, and counts."""

    def __init__(self, *answers: Extract) -> None:
        self.answers = list(answers)
        self.kinds: list[Kind] = []

    async def __call__(self, kind: Kind, pieces: AsyncIterable[bytes], *, report: Report) -> Extract:
        self.kinds.append(kind)
        data = b"".join([piece async for piece in pieces])
        await report(1, 2)
        if self.answers:
            return self.answers.pop(0)
        text, end = document_files.read(kind, data)
        ends: dict[str, End] = {"ok": "ok"}
        return Extract(text.encode(), ends[end], (1, 1))


@pytest.mark.parametrize(
    ("page", "read", "text", "note"),
    [
        ("a &lt; b", None, "a < b", None),
        ("<p>a &lt; b", None, "a < b\n", None),
        ("<p>x", Extract(b"", "failed"), "", "It could not be read: something in it is beyond this server's reader."),
        ("<p>x", Extract(b"x", "slow"), "x", "It took too long to read, so what follows is missing."),
        ("<p>x", Extract(b"", "empty"), "", "It holds no text."),
        ("x" * 5_000_000, None, "x" * 4_194_304, "It is longer than is read of one document; what follows is missing."),
        ('<meta charset="latin-1">ü', None, "ü\n", None),
    ],
)  # fmt: skip
async def test_html_that_is_no_file_is_read_with_the_same_care(
    page: str, read: Extract | None, text: str, note: str | None
) -> None:
    reader = Reader(*([read] if read else []))

    assert await Documents(reader).page(account_in(Sandbox()), page) == (text, note)
    assert reader.kinds == (["html"] if "<" in page else [])


def sandbox_with(path: str, data: bytes) -> tuple[Account, Sandbox]:
    # Its files were written an hour ago, so their texts are cached.
    sandbox = Sandbox.demo(clock=lambda: datetime.now(UTC) - timedelta(hours=1), one_second_etags=False)
    sandbox.state.users["alice"].files.put(path, data)
    return account_in(sandbox), sandbox


async def reading(account: Account, path: str, documents: Documents, **arguments: object) -> FileText:
    result = await call_with(
        {"documents": documents}, files, account, "nc_files_read_file", path=path, **arguments
    )
    assert isinstance(result, FileText), result
    return result


async def facts(account: Account, path: str, documents: Documents) -> str:
    result = await call_with({"documents": documents}, files, account, "nc_files_read_file", path=path)
    assert isinstance(result, FileFacts), result
    return result.note


def fetched(sandbox: Sandbox) -> int:
    return [each.method for each in sandbox.requests.records].count("GET")


async def test_the_pages_of_a_document_give_its_text_once_and_it_is_read_once() -> None:
    lines = [f"line {number} of a long document, which is h\u00e4rd" for number in range(2_000)]
    account, sandbox = sandbox_with(
        "/Plan.docx", document_files.docx("".join(document_files.paragraph(line) for line in lines))
    )
    reader = Reader()
    documents, told, offset = Documents(reader), ProgressLog(), 0
    pages: list[str] = []

    while offset is not None:
        page = await call_with(
            {"documents": documents, "progress": told},
            files,
            account,
            "nc_files_read_file",
            path="Plan.docx",
            offset=offset,
            limit=10_001,
        )
        pages.append(page.content)
        offset = page.next_offset

    assert "".join(pages).splitlines() == lines
    assert len(pages) > 5
    assert reader.kinds == ["word"]
    assert fetched(sandbox) == 1
    assert told.reports == [(1, 2, "Read 1 of 2 parts")]


async def test_a_page_of_a_document_tells_both_sizes_and_what_it_is() -> None:
    data = document_files.pdf(["Hello"])
    account, _ = sandbox_with("/Letter.pdf", data)

    page = await reading(account, "/Letter.pdf", Documents(Reader()))

    assert page.content == "[Page 1 of 1]\nHello\n\n"
    assert (page.size, page.text_size, page.offset, page.truncated) == (len(data), 21, 0, False)
    assert page.type == "application/pdf"
    assert page.note == "This is the text of the PDF alone."


async def test_a_document_that_changed_is_read_anew_and_one_of_another_user_is_not_given() -> None:
    account, sandbox = sandbox_with("/a.html", b"<p>old")
    documents = Documents(Reader())
    sandbox.state.users["bob"].files.put("/a.html", b"<p>bob")
    first = await reading(account, "a.html", documents)
    sandbox.state.users["alice"].files.put("/a.html", b"<p>new")

    second = await reading(account, "a.html", documents)
    bobs = await reading(account_in(sandbox, "bob"), "a.html", documents)

    assert [page.content for page in (first, second, bobs)] == ["old\n", "new\n", "bob\n"]
    assert first.etag != second.etag


async def test_html_can_be_read_as_text_or_as_it_is_stored() -> None:
    account, _ = sandbox_with("/a.html", b"<p>Hello")
    documents = Documents(Reader())

    text = await reading(account, "a.html", documents)
    stored = await reading(account, "a.html", documents, raw=True)

    assert text.note == "This is the text of the HTML page alone. Pass raw=true for the file as it is stored."
    assert (text.content, stored.content, stored.note) == ("Hello\n", "<p>Hello", None)


async def test_a_document_is_known_by_its_first_bytes_too() -> None:
    account, _ = sandbox_with("/letter", document_files.pdf(["Hello"]))
    rich, _ = sandbox_with("/note.txt", rb"{\rtf1 Hello}")
    documents = Documents(Reader())

    assert "Hello" in (await reading(account, "letter", documents)).content
    assert (await reading(rich, "note.txt", documents)).content == "Hello\n"
    assert (await reading(rich, "note.txt", documents, raw=True)).content == r"{\rtf1 Hello}"


async def test_texts_are_forgotten_after_a_while_and_when_there_are_too_many() -> None:
    account, sandbox = sandbox_with("/a.html", b"<p>a")
    sandbox.state.users["alice"].files.put("/b.html", b"<p>b")
    now = [0.0]
    half = Extract(b"x" * (KEPT_BYTES // 2 + 1), "ok")
    reader = Reader(half, half, half)
    documents = Documents(reader, clock=lambda: now[0])

    for path in ("a.html", "a.html", "b.html", "a.html"):
        await reading(account, path, documents)
    now[0] = KEPT_SECONDS
    await reading(account, "a.html", documents)

    assert len(reader.kinds) == 4


async def test_a_document_that_has_just_changed_is_read_anew_though_its_etag_stays() -> None:
    """Nextcloud's etag of two writes within one second is the same if the size is, too."""
    now = datetime.fromtimestamp(SECONDS + 1, UTC)
    headers = {"ETag": '"e1"', "Last-Modified": MOMENT, "Content-Length": "4"}
    listed = multistatus([entry("a.html", size=4)])
    bodies = (b"<p>a", b"<p>b", b"<p>c")
    answers = [(listed, httpx2.Response(200, headers=headers, content=body)) for body in bodies]
    account = account_over(network(*(each for pair in answers for each in pair), listed))
    documents = Documents(Reader(), now=lambda: now)

    first = await reading(account, "a.html", documents)
    second = await reading(account, "a.html", documents)
    now += timedelta(minutes=1)
    third, fourth = [await reading(account, "a.html", documents) for _ in range(2)]

    assert [each.content for each in (first, second, third, fourth)] == ["a\n", "b\n", "c\n", "c\n"]


async def test_two_calls_for_one_document_read_it_once() -> None:
    account, _ = sandbox_with("/a.html", b"<p>a")
    reader = Reader()
    documents = Documents(reader)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(reading, account, "a.html", documents)

    assert reader.kinds == ["html"]


@pytest.mark.parametrize(
    ("extract", "words"),
    [
        (Extract(b"", "password"), "is locked with a password"),
        (Extract(b"[Page 1 of 1: no text]\n", "empty"), "has no text layer: its pages are pictures"),
        (Extract(b"", "unpacks"), "would unpack to far more"),
        (Extract(b"", "broken"), "is damaged or not what its name says"),
        (Extract(b"", "failed"), "could not be read"),
        (Extract(b"", "slow"), "took too long to read"),
        (Extract(b"", "memory"), "needs more memory"),
    ],
)
async def test_why_there_is_no_text_is_told(extract: Extract, words: str) -> None:
    account, _ = sandbox_with("/a.pdf", b"%PDF")

    note = await facts(account, "a.pdf", Documents(Reader(extract)))

    assert note.startswith(f"This PDF of 4 bytes {words}")


async def test_an_empty_document_is_called_empty() -> None:
    account, _ = sandbox_with("/a.docx", b"PK")

    note = await facts(account, "a.docx", Documents(Reader(Extract(b"", "empty"))))

    assert note == "This Word document of 2 bytes holds no text."


@pytest.mark.parametrize("end", ["long", "slow", "memory", "broken", "unpacks", "failed"])
async def test_text_that_is_not_all_of_it_says_so(end: End) -> None:
    account, _ = sandbox_with("/a.pdf", b"%PDF")

    page = await reading(account, "a.pdf", Documents(Reader(Extract(b"so far", end))))

    assert page.content == "so far"
    assert str(page.note).endswith("missing.")


@pytest.mark.parametrize("at_first", [SMALL_BYTES * 2 + 1, 5])
async def test_a_large_document_goes_to_the_reader_as_it_comes_and_is_read_whole(at_first: int) -> None:
    """Also one that has grown since its size was looked up."""
    size = SMALL_BYTES * 2 + 1
    sandbox = Sandbox.demo(one_second_etags=False)
    stored = sandbox.state.users["alice"].files
    stored.put("/long.rtf", b"x" * at_first)
    lengths: list[int] = []

    class Growing(httpx2.ASGITransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.method == "GET":
                stored.put("/long.rtf", b"x" * size)
            return await super().handle_async_request(request)

    async def read(kind: Kind, pieces: AsyncIterable[bytes], *, report: Report) -> Extract:
        lengths.append(sum([len(piece) async for piece in pieces]))
        return Extract(b"read", "ok")

    page = await reading(account_through(Growing(app=sandbox.app), "alice"), "long.rtf", Documents(read))

    assert (page.content, lengths) == ("read", [size])


async def test_a_document_that_is_too_large_is_not_even_fetched() -> None:
    body = entry("a.pdf", size=MAX_DOCUMENT_BYTES + 1)
    net = network(multistatus([body]))

    note = await facts(account_over(net), "a.pdf", Documents(Reader()))

    assert note == (
        "This PDF of 52428801 bytes is too large: text is taken out of documents of up to 52428800 bytes."
    )


async def test_a_folder_that_is_named_like_a_document_is_a_folder() -> None:
    account, sandbox = sandbox_with("/x", b"")
    sandbox.state.users["alice"].files.make_folder("/a.pdf")

    with pytest.raises(InvalidInput, match="is a folder: list it"):
        await reading(account, "a.pdf", Documents(Reader()))


async def test_a_document_that_is_not_there_is_not_found() -> None:
    account, _ = sandbox_with("/x", b"")

    with pytest.raises(NotFound, match=r"no 'a\.pdf'"):
        await reading(account, "a.pdf", Documents(Reader()))


async def test_reading_on_after_the_end_is_refused() -> None:
    account, _ = sandbox_with("/a.html", b"<p>a")

    with pytest.raises(InvalidInput, match="ends before byte 2"):
        await reading(account, "a.html", Documents(Reader()), offset=2)


async def test_a_document_whose_end_never_arrives_is_not_taken_for_a_short_one() -> None:
    headers = {"ETag": '"e1"', "Last-Modified": MOMENT, "Content-Length": "10"}
    net = network(multistatus([entry("a.html")]), httpx2.Response(200, headers=headers, content=b"<p>a"))

    with pytest.raises(Unreachable, match="after 4 of 10 bytes"):
        await reading(account_over(net), "a.html", Documents(Reader()))


async def test_a_document_is_kept_by_the_state_that_was_fetched() -> None:
    headers = {"ETag": '"e2"', "Last-Modified": MOMENT, "Content-Length": "4"}
    later = multistatus([entry("a.html", etag="e2", size=4)])
    net = network(
        multistatus([entry("a.html", size=4)]), httpx2.Response(200, headers=headers, content=b"<p>a"), later
    )
    documents = Documents(Reader())
    account = account_over(net)

    first, second = [await reading(account, "a.html", documents) for _ in range(2)]

    assert first.etag == second.etag == f"e2~4~{SECONDS}"
    assert net.methods == ["PROPFIND", "GET", "PROPFIND"]


async def test_an_old_office_file_is_told_apart() -> None:
    account, _ = sandbox_with("/a.doc", b"\xd0\xcf\x11\xe0\0\0")

    note = await facts(account, "a.doc", Documents(Reader()))

    assert note == (
        "This is a Word document of the old format of 6 bytes; its text can't be read. "
        "Saved in the present format, it can."
    )


async def test_a_document_whose_name_says_nothing_is_known_by_its_first_bytes() -> None:
    account, _ = sandbox_with("/letter", b"{\\rtf1 Dear Bob}")

    found = await reading(account, "/letter", Documents(Reader()))

    assert found.content == "Dear Bob\n"

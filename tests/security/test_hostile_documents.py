"""Documents made to hurt anyone who opens them: refused, or ended, in bounded memory and time."""

import io
import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import AsyncIterator

import anyio
import pytest

from nextcloud_mcp_server.documents import process, worker
from nextcloud_mcp_server.documents.archive import MAX_MEMBERS
from nextcloud_mcp_server.documents.output import MAX_TEXT_BYTES
from nextcloud_mcp_server.documents.process import Extract
from tests.document_files import W, docx, paragraph, pdf, read, zipped

MEGABYTE = 1_048_576
DEEP = "<w:x>" * 1_000 + "</w:x>" * 1_000


async def in_pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 65_536):
        yield data[start : start + 65_536]


async def unheard(done: int, total: int) -> None:
    del done, total


async def extract(data: bytes, script: str, *, seconds: float = 10) -> Extract:
    """Run a made-up worker."""
    command = (sys.executable, "-I", "-c", script)
    with anyio.fail_after(60):
        return await process.extract(
            "word", in_pieces(data), report=unheard, seconds=seconds, command=command
        )


def declares(entities: str, body: str) -> bytes:
    content = f"<!DOCTYPE d [{entities}]><w:document {W}><w:body>{body}</w:body></w:document>"
    return zipped({"word/document.xml": content})


def test_a_zip_bomb_is_not_unpacked() -> None:
    bomb = zipped({"word/document.xml": b" " * 20 * MEGABYTE})
    tracemalloc.start()
    try:
        result = read("word", bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert result == ("", "unpacks")
    assert len(bomb) < MEGABYTE
    assert peak < 2 * MEGABYTE


def test_a_bomb_that_lies_about_its_size_unpacks_to_no_more_than_it_says() -> None:
    honest = zipped({"word/document.xml": b"<a>" + b" " * 5 * MEGABYTE})
    size = struct.pack("<I", 3 + 5 * MEGABYTE)
    lying = honest.replace(size, struct.pack("<I", 3))

    assert read("word", lying) == ("", "broken")


def test_a_zip_file_of_very_many_members_is_refused() -> None:
    one, count = zipped({"a": ""}), MAX_MEMBERS + 1
    start, end = one.index(b"PK\1\2"), one.index(b"PK\5\6")
    entry = one[start:end]
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(entry) * count, start, 0)

    assert read("word", one[:start] + entry * count + tail)[1] == "unpacks"


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_methods_no_document_uses_are_refused(method: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("content.xml", b"x")

    assert read("opendocument", file.getvalue())[1] == "broken"


def test_an_entity_bomb_does_not_go_off() -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = declares(f'<!ENTITY e0 "boom">{levels}', paragraph("&e9;"))

    assert read("word", bomb) == ("", "broken")


def test_a_file_of_this_computer_is_not_read() -> None:
    attack = declares('<!ENTITY x SYSTEM "file:///etc/passwd">', paragraph("&x;"))
    overrides = '<!DOCTYPE d SYSTEM "file:///etc/passwd"><d>&x;</d>'

    assert read("word", attack) == ("", "broken")
    assert read("opendocument", zipped({"content.xml": overrides})) == ("", "empty")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\3\4",
        b"no zip at all",
        docx(paragraph("x"))[:-40],
        docx(DEEP),
        docx("<w:p>"),
        zipped({"other": "x"}),
        zipped({"word/document.xml": b"\xff\xfe<broken"}),
        zipped({"word/document.xml": '<?xml version="1.0" encoding="no-such"?><a/>'}),
        docx(paragraph("x" * 999)).replace(b"xml", b"xm\0"),
    ],
)
def test_what_is_no_word_document_is_told_apart(data: bytes) -> None:
    text, end = read("word", data)

    assert (text, end) == ("", "broken")


def test_a_member_that_is_damaged_ends_the_reading() -> None:
    body = "".join(paragraph(f"{number} {number * 7919 % 1000}") for number in range(5_000))
    whole = docx(body)
    at = whole.index(b"word/document.xml") + 8_000
    damaged = whole[:at] + b"\xff" * 64 + whole[at + 64 :]

    assert read("word", damaged)[1] == "broken"


def test_documents_with_a_password_are_told_apart() -> None:
    from pypdf import PdfReader, PdfWriter  # noqa: PLC0415 - only where a PDF is locked

    writer, locked, open_ = PdfWriter(PdfReader(io.BytesIO(pdf(["secret"])))), io.BytesIO(), io.BytesIO()
    writer.encrypt("word", algorithm="AES-256")
    writer.write(locked)
    writer.encrypt("", "owner", algorithm="AES-256")
    writer.write(open_)
    encrypted = bytearray(zipped({"content.xml": "x"}))
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1

    assert read("pdf", locked.getvalue()) == ("", "password")
    assert "secret" in read("pdf", open_.getvalue())[0]
    assert read("word", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)) == ("", "password")
    assert read("opendocument", bytes(encrypted)) == ("", "password")
    assert read(
        "opendocument", zipped({"META-INF/manifest.xml": "<m><encryption-data/></m>", "content.xml": "?"})
    ) == ("", "password")
    assert read(
        "epub",
        zipped(
            {
                "META-INF/container.xml": '<c><rootfile full-path="b.opf"/></c>',
                "META-INF/encryption.xml": '<e><CipherReference URI="one.html"/></e>',
                "b.opf": '<p><item id="a" href="one.html"/><itemref idref="a"/></p>',
                "one.html": "?",
            }
        ),
    ) == ("", "password")


def test_a_chapter_of_absurd_length_is_refused() -> None:
    book = zipped(
        {
            "META-INF/container.xml": '<c><rootfile full-path="b.opf"/></c>',
            "b.opf": '<p><item id="a" href="one.html"/><itemref idref="a"/></p>',
            "one.html": bytes(range(256)) * 132_000,
            "padding": bytes(range(256)) * 4_000,
        }
    )

    assert read("epub", book)[1] == "unpacks"


def test_a_pdf_whose_pages_never_end_does_end() -> None:
    endless = pdf(["once"]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
    boasting = pdf(["once"]).replace(b"/Count 1 ", b"/Count 999999999 ")

    assert read("pdf", endless)[1] in {"empty", "broken", "memory"}
    assert read("pdf", boasting)[1] in {"ok", "broken"}
    assert read("pdf", b"%PDF-1.7\n" + b"1 0 obj <<" * 200)[1] == "broken"


def test_a_sheet_may_not_claim_columns_without_end() -> None:
    row = "".join(f'<c r="XFD{n}"><v>1</v></c>' for n in range(2_000))
    book = '<workbook xmlns:r="http://x/relationships"><sheet name="a" r:id="a"/></workbook>'
    rels = '<R><Relationship Id="a" Target="s.xml"/></R>'
    sheet = zipped(
        {"xl/workbook.xml": book, "xl/_rels/workbook.xml.rels": rels, "xl/s.xml": f"<s><row>{row}</row></s>"}
    )

    assert read("sheet", sheet)[1] == "empty"


def test_a_mail_in_a_mail_in_a_mail_is_followed_only_so_far() -> None:
    mail = "From: a@example.org\n\nhello"
    for level in range(40):
        mail = (
            f"From: a@example.org\nContent-Type: multipart/mixed; boundary=x{level}x\n\n--x{level}x\n"
            f"Content-Type: message/rfc822\n\n{mail}\n--x{level}x--\n"
        )

    text, end = read("mail", mail.encode())

    assert end == "ok"
    assert text.count("From: ") == 6


def test_a_reader_that_runs_out_of_memory_says_so() -> None:
    class Full(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise MemoryError

    told = io.StringIO()

    worker.work("pdf", Full(), io.BytesIO(), told)

    assert told.getvalue() == "end memory\n"


def test_a_reader_that_fails_says_so_and_nothing_else() -> None:
    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError("/home/alice/secret")

    told = io.StringIO()

    worker.work("pdf", Broken(), io.BytesIO(), told)

    assert told.getvalue() == "end failed\n"


def test_the_worker_gives_up_what_it_does_not_need() -> None:
    class Resource:
        RLIMIT_AS, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_NOFILE = range(5)

        def __init__(self) -> None:
            self.given: dict[int, tuple[int, int]] = {}

        def setrlimit(self, resource: int, limits: tuple[int, int], /) -> None:
            if resource == self.RLIMIT_CORE:
                raise ValueError("not here")
            self.given[resource] = limits

    resource = Resource()

    worker.limit(resource)
    worker.limit(None)

    assert worker.limits_of_system() is not None
    assert resource.given == {
        0: (worker.MEMORY_BYTES, worker.MEMORY_BYTES),
        1: (worker.CPU_SECONDS, worker.CPU_SECONDS + 1),
        2: (0, 0),
        4: (worker.OPEN_FILES, worker.OPEN_FILES),
    }


@pytest.mark.process
async def test_the_real_worker_reads_a_document_and_can_do_nothing_else() -> None:
    heard: list[tuple[int, int]] = []

    async def report(done: int, total: int) -> None:
        heard.append((done, total))

    with anyio.fail_after(60):
        found = await process.extract("pdf", in_pieces(pdf(["Hello", "there"])), report=report)

    assert found == Extract(b"[Page 1 of 2]\nHello\n\n[Page 2 of 2]\nthere\n\n", "ok", (2, 2))
    assert heard[0] == (1, 2)


@pytest.mark.process
async def test_the_worker_has_no_secret_no_file_to_write_and_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN_ENCRYPTION_KEYS", "canary")
    script = process.COMMAND[3].replace(
        "main(sys.argv[1])", "main.__globals__['limit'](main.__globals__['limits_of_system']())"
    ) + (
        "\nimport os, tempfile\n"
        "print(dict(os.environ), os.getcwd())\n"
        "try:\n    open(tempfile.gettempdir() + '/x', 'w').write('x' * 10)\n"
        "except OSError as error:\n    print('no file')\n"
        "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    print('no memory')\n"
    )

    found = await extract(b"", script)

    assert b"canary" not in found.text
    assert found.text.split(b"\n", 1)[0].endswith(b"/")
    assert b"no file\nno memory\n" in found.text


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such priorities")
async def test_the_worker_comes_after_the_server_where_the_processor_is_busy() -> None:
    """It ran at the server's own priority, and took half of a processor from the calls of all users."""
    behind, seen = min(19, os.nice(0) + worker.NICENESS), list[int]()
    command = [*process.COMMAND, "html"]
    async with await anyio.open_process(command, env={}, cwd=process.TOP, stdin=subprocess.PIPE) as started:
        with anyio.fail_after(60):
            while seen[-1:] != [behind]:
                await anyio.sleep(0.01)
                seen.append(os.getpriority(os.PRIO_PROCESS, started.pid))
        started.kill()

    assert seen[-1] == behind


@pytest.mark.process
async def test_a_worker_that_never_ends_is_ended_and_its_text_kept() -> None:
    script = "import sys, time; print('so far', flush=True); print('3 9', file=sys.stderr, flush=True); time.sleep(600)"

    found = await extract(b"x", script, seconds=0.5)

    assert found == Extract(b"so far\n", "slow", (3, 9))


@pytest.mark.process
async def test_a_worker_that_is_killed_says_why_by_its_signal() -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.{})"

    assert (await extract(bytes(3 * MEGABYTE), kill.format("SIGKILL"))).end == "memory"
    assert (await extract(b"", kill.format("SIGXCPU"))).end == "slow"
    assert (await extract(b"", "raise SystemExit(1)")).end == "failed"


@pytest.mark.process
async def test_a_worker_that_a_document_took_over_is_not_believed() -> None:
    script = (
        "import sys\n"
        f"sys.stdout.buffer.write(b'\\0\\xff' + b'x' * {MAX_TEXT_BYTES + MEGABYTE})\n"
        "sys.stderr.write('end of it\\n1 2 3\\n' + 'y' * 100000 + '\\nend ok\\n')"
    )

    found = await extract(b"", script)

    assert len(found.text) == MAX_TEXT_BYTES - 2
    assert (found.end, found.parts) == ("ok", None)


@pytest.mark.process
async def test_a_cancelled_reading_leaves_no_process_behind() -> None:
    started = anyio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        started.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(
            lambda: process.extract(
                "pdf", pieces(), report=unheard, command=("/bin/sh", "-c", "cat > /dev/null; sleep 600")
            )
        )
        with anyio.fail_after(60):
            await started.wait()
        group.cancel_scope.cancel()

    assert group.cancel_scope.cancelled_caught

"""Every response of Nextcloud is read by one bounded reader: its bytes, its elements and its depth have limits."""

import ast
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import stamina
from pydantic import SecretStr, TypeAdapter

import nextcloud_mcp_server
from nextcloud_mcp_server.errors import NextcloudError, ServerFault, TooLarge
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud import body, dav, entries
from nextcloud_mcp_server.nextcloud.decoding import MAX_ELEMENTS, decoded
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.login_pages import LoginPages
from tests.dav_fakes import http_over

ROOT: Final = Path(nextcloud_mcp_server.__file__).parent
#: What is no request to Nextcloud: the demonstration, and the client of other servers.
OTHERS: Final = ("sandbox", "demo", "bridge", "commands/mcp_client")
PIECE: Final = b"<d>,{[" * 10_000
#: The largest response, and a few pieces.
MOST: Final = 34_000_000
SENDING: Final = {"get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "send"}


class Endless(httpx2.AsyncByteStream):
    """A body without an end, which counts what was read of it: as it is, or what it becomes."""

    def __init__(self, first: bytes = b"", *, compressed: bool = False) -> None:
        self.read = 0
        self._first = first
        self._compressed = compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        deflate = zlib.compressobj(wbits=31)
        yield deflate.compress(self._first) if self._compressed else self._first
        while True:
            self.read += len(PIECE)
            yield deflate.compress(PIECE) + deflate.flush(zlib.Z_SYNC_FLUSH) if self._compressed else PIECE


def calls(tree: ast.AST, names: set[str]) -> bool:
    """Tell whether a module calls one of these methods on a pool or client of httpx2."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and ast.unparse(node.func.value).rpartition(".")[2].strip("_")
        in {"pool", "client", "http_client", "outside"}
        for node in ast.walk(tree)
    )


def sources() -> dict[str, str]:
    files = ((file.relative_to(ROOT).as_posix(), file) for file in ROOT.rglob("*.py"))
    return {name: file.read_text("utf-8") for name, file in files if not name.startswith(OTHERS)}


def test_requests_leave_from_these_modules_alone() -> None:
    sending = {name for name, source in sources().items() if calls(ast.parse(source), SENDING)}

    assert sending == {
        # To Nextcloud; each reads by `body.read`, or hands the stream to one of the readers below.
        "nextcloud/http.py",
        "nextcloud/login_pages.py",
        "nextcloud/body.py",
        # To the identity provider, and to the addresses of a client's document and logo, with limits of their own.
        "auth/outgoing.py",
        "auth/builtin/document_source.py",
        "auth/builtin/client_logos.py",
        # Reads headers alone.
        "commands/setup.py",
    }


def test_streams_are_read_by_these_modules_alone() -> None:
    reading = {
        name
        for name, source in sources().items()
        if any(word in source for word in ("aiter_", ".aread(", "AsyncByteStream"))
    }

    assert reading == {
        "nextcloud/body.py",
        # Up to the length that was asked for; a piece at a time; an element at a time.
        "nextcloud/byte_range.py",
        "nextcloud/download.py",
        "nextcloud/entries.py",
        "auth/outgoing.py",
        "auth/builtin/document_source.py",
        "auth/builtin/client_logos.py",
    }


async def asked(http: NextcloudHttp) -> object:
    return await http.request("GET", "/ocs/x")


async def changed(http: NextcloudHttp) -> object:
    return await http.request("PUT", "/ocs/x", json={})


async def listed(http: NextcloudHttp) -> object:
    tree = dav.Tree.of("files", "alice")
    async with entries.ask(http, "PROPFIND", tree, (), body=b"", sentences={}) as found:
        return [each async for each in found]


async def seen(http: NextcloudHttp) -> object:
    pool = vars(http)["_pool"]
    return await LoginPages(pool, http.base, public_url=None).check(
        SecretStr(f"{http.base}/index.php/login/v2/flow/token")
    )


async def looked_at(http: NextcloudHttp) -> object:
    return await body.look(vars(http)["_pool"], "GET", f"{http.base}/status.php")


@pytest.mark.parametrize("way", [asked, changed, listed, seen, looked_at])
@pytest.mark.parametrize("status", [200, 207, 303, 401, 403, 404, 423, 500, 503, 507])
@pytest.mark.parametrize("kind", ["application/json", "application/xml", "text/html"])
@pytest.mark.parametrize("compressed", [False, True])
async def test_no_response_is_read_without_end(
    way: Callable[[NextcloudHttp], Awaitable[object]], status: int, kind: str, *, compressed: bool
) -> None:
    bodies: list[Endless] = []

    def answer(_: httpx2.Request) -> httpx2.Response:
        bodies.append(Endless(b'<?xml version="1.0"?><d:multistatus xmlns:d="DAV:">', compressed=compressed))
        headers = {
            "Content-Type": kind,
            "Set-Cookie": "a=b",
            **({"Content-Encoding": "gzip"} if compressed else {}),
        }
        return httpx2.Response(status, headers=headers, stream=bodies[-1])

    with stamina.set_testing(True, attempts=1), suppress(NextcloudError, httpx2.HTTPError):
        await way(http_over(answer))

    assert bodies
    assert all(each.read <= MOST for each in bodies)


@pytest.mark.parametrize("after", [b"\0" * 100_000, gzip.compress(b"{}") * 5_000])
async def test_what_follows_a_compressed_response_is_not_kept(after: bytes) -> None:
    """Python's decompressor keeps all of it, and copied it for each piece."""

    class Following(httpx2.AsyncByteStream):
        read = 0

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield gzip.compress(b"{}")
            while True:
                self.read += len(after)
                yield after

    stream = Following()
    headers = {"Content-Encoding": "gzip"}

    with pytest.raises(TooLarge):
        await http_over(lambda _: httpx2.Response(200, headers=headers, stream=stream)).request(
            "GET", "/ocs/x"
        )

    assert stream.read <= MOST


@pytest.mark.parametrize("element", [b"0", b"{}", b"[]", b'""', b'{"a":[{"b":{}}]}'])
def test_json_of_too_many_elements_is_not_parsed(element: bytes) -> None:
    parsed: list[object] = []

    class Spy:
        def validate_json(self, data: bytes) -> object:
            parsed.append(data)
            return data

    spy: Any = Spy()
    many = b"[" + b",".join([element] * (MAX_ELEMENTS + 1)) + b"]"

    with pytest.raises(TooLarge, match="more parts"):
        decoded(httpx2.Response(200, content=many), spy)

    assert not parsed


def test_a_text_may_hold_any_number_of_commas_and_brackets() -> None:
    text = b'["' + b",[{" * MAX_ELEMENTS + b'"]'

    assert decoded(httpx2.Response(200, content=text), TypeAdapter(list[str])) == [",[{" * MAX_ELEMENTS]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (b'{"a":[1,2],"b":"[,{"}', False),
        (b'{"a":[1,2],"b":"[,{",}', True),
        (b'["\\",","]', False),
        (b'["\\\\",1,2,3,4]', True),
        (b'[1,2,"[,{,{,{,{', False),
    ],
)
def test_elements_are_counted_outside_of_strings(text: bytes, *, more: bool) -> None:
    assert untrusted.has_more_elements(text, 4) == more


@pytest.mark.parametrize("depth", [300, 100_000, 6_000_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_json_that_is_nested_too_deeply_is_a_fault_of_nextcloud(depth: int, opening: bytes) -> None:
    with pytest.raises((ServerFault, TooLarge)):
        decoded(httpx2.Response(200, content=opening * depth), TypeAdapter(Any))

"""Whatever a model sends and whatever Nextcloud answers: a result, or one clear sentence."""

import json
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, cast

import httpx2
import pytest

from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.process import Extract
from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.registry import load
from tests.dav_fakes import call_with
from tests.every_tool import SPECS, tampered, usual

LINK = "https://cloud.example.org/login/v2/flow/abc"
TEXTS = (
    "", "a\r\nb", "../../x", "²", "9999-12-31", "0001-01-01T00:00:00-12:00", "FREQ=DAILY;UNTIL=99991231T235959Z",
    "WyJ4IixbXSxudWxsXQ", LINK,
)  # fmt: skip
NAN = float("nan")
VALUES: dict[str, tuple[object, ...]] = {
    "string": TEXTS,
    "integer": (-1, 10**30, NAN, "1"),
    "array": (["a\nb"], ["x" * 3000], [1]),
    "object": ({"x" * 3000: 1}, {"Count": NAN}, {"Count": 10**30}, {"Place": "\n"}, {"Item": {}}),
    "boolean": ("x",),
}
ODD = (None, 10**30)
PAGE = httpx2.Response(200, headers={"Content-Type": "text/html"}, content=b"<html>Sign in</html>")
#: No one recorded what these apps answer, so their writing tools are tried here, with the sandbox's answers.
UNRECORDED = frozenset({"talk", "news", "mail", "status"})
ANSWERED = [name for name, spec in SPECS.items() if spec.read_only or spec.toolset in UNRECORDED]


async def outcome(nc: Account, tool: str, arguments: dict[str, Any]) -> str:
    """Give the sentence of an error, or nothing; any other exception is what must not be."""
    toolset = load(SPECS[tool].toolset)
    try:
        answer.result(await call_with({"documents": Documents(read)}, toolset, nc, tool, **arguments))
    except NextcloudMcpError as error:
        [block] = answer.failure(str(error)).content
        return getattr(block, "text", "")
    return ""


async def read(
    kind: Kind, pieces: AsyncIterable[bytes], *, report: Callable[[int, int], Awaitable[None]]
) -> Extract:
    return Extract(b"".join([piece async for piece in pieces]), "ok")


def assert_clear(sentence: str) -> None:
    assert len(sentence.splitlines()) <= 1
    assert len(sentence) <= 4_000
    assert not any(
        word in sentence for word in ("Traceback", "validation error", "login/v2/flow", "localhost")
    )


@pytest.fixture(scope="module")
async def every() -> dict[str, dict[str, Any]]:
    """Give arguments for all tools; each demo has the same."""
    return await usual(tampered(Sandbox.demo())[1])


@pytest.mark.parametrize("tool", SPECS)
async def test_no_argument_is_too_odd_for_a_clear_sentence(
    tool: str, every: dict[str, dict[str, Any]]
) -> None:
    _, alice = tampered(Sandbox.demo())
    arguments = every[tool]

    for name, prop in SPECS[tool].arguments.schema["properties"].items():
        for value in VALUES.get(prop.get("type", "string"), TEXTS):
            assert_clear(await outcome(alice, tool, {**arguments, name: value}))


@pytest.mark.parametrize("tool", ANSWERED)
async def test_no_answer_is_too_odd_for_a_clear_sentence(tool: str, every: dict[str, dict[str, Any]]) -> None:
    network, alice = tampered(Sandbox.demo())
    arguments = every[tool]
    await outcome(alice, tool, arguments)
    good = {answered.request.url.path: answered for answered in network.answers}

    for path, answered in good.items():
        for bad in (PAGE, *cut(answered), *odd(answered)):
            network.change = partial(instead, path, bad)
            assert_clear(await outcome(alice, tool, arguments))


def instead(
    path: str, bad: httpx2.Response, request: httpx2.Request, good: httpx2.Response
) -> httpx2.Response:
    return bad if request.url.path == path else good


def cut(good: httpx2.Response) -> Iterator[httpx2.Response]:
    for content in (b"null", b"[" * 50_000, good.content[: len(good.content) // 2]):
        yield httpx2.Response(good.status_code, headers=good.headers, content=content)


def odd(good: httpx2.Response) -> Iterator[httpx2.Response]:
    """Give the answer with another value at each place in it; of a list its first entry stands for all."""
    # What each app tells of itself is looked at elsewhere: it is long, and one tool is like the other.
    if good.request.url.path.endswith("/capabilities") or "json" not in good.headers.get("Content-Type", ""):
        return
    for path, value in product(paths(good.json(), ()), ODD):
        document = parent = good.json()
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = value
        yield httpx2.Response(good.status_code, headers=good.headers, content=json.dumps(document).encode())


def paths(value: object, above: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    below: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        below = list(cast("dict[str, object]", value).items())
    elif isinstance(value, list):
        below = list(enumerate(cast("list[object]", value)))[:1]
    for step, inner in below:
        yield (*above, step)
        yield from paths(inner, (*above, step))

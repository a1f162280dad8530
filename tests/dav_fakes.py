"""A fake network for the tests of files: recordings, made-up multistatus bodies, the sandbox."""

import json
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

import anyio
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.process import Extract
from nextcloud_mcp_server.nextcloud import memory_permit
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.local_folder import LocalFolder
from nextcloud_mcp_server.tools.registry import TOOLSETS, load
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset
from tests.result_schemas import assert_result_meets

RECORDINGS = Path(__file__).parent / "contract" / "recordings"
MOMENT = "Fri, 27 Nov 2026 21:03:53 GMT"
#: MOMENT in the form of a version.
SECONDS = 1795813433

Handler = (
    Callable[[httpx2.Request], httpx2.Response]
    | Callable[[httpx2.Request], Coroutine[Any, Any, httpx2.Response]]
)


def recorded(name: str) -> httpx2.Response:
    """Return a recorded response of a real Nextcloud."""
    answer: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))["response"]
    body = answer["body"]
    content = body if isinstance(body, str) else ""
    dropped = ("content-length", "set-cookie")
    headers = {key: value for key, value in answer["headers"].items() if key.lower() not in dropped}
    return httpx2.Response(answer["status"], headers=headers, content=content.encode())


def entry(
    path: str,
    *,
    uid: str = "alice",
    folder: bool = False,
    size: int | None = 3,
    etag: str | None = "e1",
    modified: str = MOMENT,
    extra: str = "",
    href: str | None = None,
) -> str:
    """Return one response element of a multistatus."""
    where = href or f"/remote.php/dav/files/{quote(uid)}/{quote(path)}"
    kind = "<d:collection/>" if folder else ""
    tag = "" if etag is None else f"<d:getetag>&quot;{etag}&quot;</d:getetag>"
    length = "" if size is None else f"<oc:size>{size}</oc:size>"
    return (
        f"<d:response><d:href>{escape(where)}</d:href><d:propstat><d:prop><d:resourcetype>{kind}</d:resourcetype>"
        f"<d:getlastmodified>{modified}</d:getlastmodified>{tag}{length}{extra}</d:prop>"
        "<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    )


def multistatus(entries: Iterable[str]) -> httpx2.Response:
    """Return a multistatus response."""
    names = 'xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns"'
    body = f'<?xml version="1.0"?><d:multistatus {names}>{"".join(entries)}</d:multistatus>'
    return httpx2.Response(207, content=body.encode())


@dataclass
class Network:
    """Answers requests one after the other, and records them."""

    answers: list[httpx2.Response | Exception]
    seen: list[httpx2.Request] = field(default_factory=list[httpx2.Request])

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        # A new stream: a transport returns unread responses.
        return httpx2.Response(
            answer.status_code, headers=answer.headers, stream=httpx2.ByteStream(answer.content)
        )

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.seen]


def network(*answers: httpx2.Response | Exception) -> Network:
    return Network(list(answers))


def http_over(
    handler: Handler, *, uid: str = "alice", base: str = "https://cloud.example.org"
) -> NextcloudHttp:
    """Return one user's HTTP over a fake network."""
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(handler))
    credential = BasicCredential(f"{uid}@example.org", SecretStr("made-up"))
    return NextcloudHttp(pool, NextcloudUrl.parse(base), credential=credential, uid=uid)


def account_over(handler: Handler) -> Account:
    """Return an account over a fake network."""
    return Account(http_over(handler))


def account_in(sandbox: Sandbox, uid: str = "alice", *, base: str = "http://localhost") -> Account:
    """Return a user's account in a sandbox."""
    return account_through(httpx2.ASGITransport(app=sandbox.app), uid, base=base)


def account_through(
    transport: httpx2.AsyncBaseTransport, uid: str, *, base: str = "http://localhost"
) -> Account:
    """Return a user's account behind a transport of the test."""
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=transport)
    nextcloud = Nextcloud(NextcloudUrl.parse(base), pool)
    return nextcloud.account(BasicCredential(uid, SecretStr(uid)), uid=uid)


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    """Call a tool's body with validated arguments, as the boundary does."""
    found = (load(name) for name in TOOLSETS)
    toolset = next(each for each in found if any(tool in (spec.name, *spec.aliases) for spec in each.tools))
    return await call_in(toolset, account, tool, **arguments)


async def call_in(toolset: Toolset, account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - see above
    """Call a tool's body of any toolset with validated arguments, as the boundary does."""
    return await call_with({}, toolset, account, tool, **arguments)


async def call_with(
    ours: Mapping[str, object], toolset: Toolset, account: Account, tool: str, **arguments: object
) -> Any:  # noqa: ANN401 - see above
    """Call a tool's body with injected parameters, within the limits that the guard sets."""
    named = (each for spec in toolset.tools for each in (spec, *spec.old_names))
    spec = next(each for each in named if each.name == tool)
    handed = {
        "progress": ProgressLog(),
        "documents": Documents(nothing_read),
        "local_folder": LocalFolder(),
        **ours,
    }
    async with memory_permit.of_call():
        result: Result = await spec.guarded.body(
            account,
            **spec.arguments.validate({**arguments, **spec.preset}),
            **{name: handed[name] for name in spec.injected},
        )
    assert_result_meets(spec, result)
    return result


@dataclass
class ProgressLog:
    """Records the progress of a call."""

    reports: list[tuple[float, float | None, str | None]] = field(
        default_factory=list[tuple[float, float | None, str | None]]
    )

    async def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self.reports.append((done, total, message))


class Impatient(ProgressLog):
    """Cancels the call at its first progress report."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        super().__init__()
        self._scope = scope

    async def report(self, done: float, total: float | None = None, message: str | None = None) -> None:
        await super().report(done, total, message)
        self._scope.cancel()
        await anyio.lowlevel.checkpoint()


async def nothing_read(
    kind: Kind, pieces: AsyncIterable[bytes], *, report: Callable[[int, int], Awaitable[None]]
) -> Extract:
    """Replace the document worker where no document may be read."""
    raise NotImplementedError

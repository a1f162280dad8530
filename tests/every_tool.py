"""Every tool that sends requests, with valid arguments, over a network that can be manipulated."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.registry import CONNECTION, TOOLSETS, load
from nextcloud_mcp_server.tools.toolset import ToolSpec

SPECS: Final[dict[str, ToolSpec]] = {
    spec.name: spec for name in TOOLSETS if name != CONNECTION for spec in load(name).tools
}
#: By toolset, the modules beside the tests of an app: `usual` gives arguments for its tools where they take some, and
#: `working` what else one of them needs to succeed.
EXAMPLES: Final = {app.toolset: import_module(f"tests.unit.apps.{app.name}.examples") for app in APPS}
#: Changes a response: returns it, another one, or an exception in place of it.
Change = Callable[[httpx2.Request, httpx2.Response], httpx2.Response | Exception]


class Tampered(httpx2.AsyncBaseTransport):
    """Passes requests on to a sandbox, and its responses through `change`; records the responses."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.answers: list[httpx2.Response] = []
        self.change: Change | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await httpx2.ASGITransport(app=self.sandbox.app).handle_async_request(request)
        body = await answer.aread()
        headers = [(name, value) for name, value in answer.headers.items() if name != "content-length"]
        whole = httpx2.Response(answer.status_code, headers=headers, content=body, request=request)
        self.answers.append(whole)
        told = self.change(request, whole) if self.change else whole
        if isinstance(told, Exception):
            raise told
        # A new stream: a transport returns unread responses.
        kept = [(name, value) for name, value in told.headers.items() if name != "content-length"]
        return httpx2.Response(told.status_code, headers=kept, stream=httpx2.ByteStream(told.content))


def tampered(sandbox: Sandbox) -> tuple[Tampered, Account]:
    """Return alice's account in a sandbox, over a network that can be manipulated."""
    network = Tampered(sandbox)
    return network, account_over(network)


def account_over(network: Tampered) -> Account:
    """Return alice's account in the sandbox behind a network."""
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=network)
    nextcloud = Nextcloud(NextcloudUrl.parse("http://localhost"), pool)
    return nextcloud.account(BasicCredential("alice", SecretStr("alice")), uid="alice")


async def usual(nc: Account) -> dict[str, dict[str, Any]]:
    """Return valid arguments for each tool; some etags for changes are out of date."""
    given = {name: one for examples in EXAMPLES.values() for name, one in (await examples.usual(nc)).items()}
    return {name: given.get(name, {}) for name in SPECS}


async def working(nc: Account, tool: str, every: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return arguments with which a tool succeeds; creates what that needs."""
    given = every[tool]
    needed = getattr(EXAMPLES[SPECS[tool].toolset], "working", None)
    return {**given, **(await needed(nc, tool, given) if needed else {})}

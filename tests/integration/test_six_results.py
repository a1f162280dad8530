"""Each tool in each way a call can end, checked as a strict client checks it.

Everything is in one process: the client's HTTP, our server, and a Nextcloud whose answers can be replaced.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types import ErrorData
from mcp_types.jsonrpc import JSONRPCError, JSONRPCResponse
from mcp_types.methods import validate_server_result

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, Message, StatelessClient, WireClient
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.server.composition import ServerParts, build_server
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.tools.registry import CONNECTION, load
from tests.every_tool import SPECS, Change, Tampered, account_over, usual, working

URL_MODE: Final[dict[str, Any]] = {"elicitation": {"url": {}}}
DECLINED: Final = "Not connected: the user declined, and the link no longer works."
CONNECTION_TOOLS: Final = [spec.name for spec in load(CONNECTION).tools]
VERSIONS: Final[dict[str, type[WireClient]]] = {"2025-11-25": HandshakeClient, "2026-07-28": StatelessClient}


def refused(status: int) -> Change:
    """Answer every request with a status, as a web server before Nextcloud does."""
    return lambda request, _: httpx2.Response(status, content=b"", request=request)


@dataclass
class Client:
    """A strict client: it reads no answer that the protocol or the tool's own schema does not allow."""

    wire: WireClient
    version: str
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    async def learn(self) -> None:
        """List the tools, and take what each says of its results."""
        params: Message = {}
        while True:
            answer = JSONRPCResponse.model_validate(await self.wire.request("tools/list", params))
            validate_server_result("tools/list", self.version, answer.result)
            self.schemas |= {tool["name"]: tool["outputSchema"] for tool in answer.result["tools"]}
            if "nextCursor" not in answer.result:
                return
            params = {"cursor": answer.result["nextCursor"]}

    async def call(self, tool: str, arguments: dict[str, Any], **more: object) -> Message:
        """Call a tool and check what comes back; an error of the protocol stands under `error`."""
        said = await self.wire.request("tools/call", {"name": tool, "arguments": arguments, **more})
        if "error" in said:
            return {"error": JSONRPCError.model_validate(said).error}
        result = JSONRPCResponse.model_validate(said).result
        validate_server_result("tools/call", self.version, result)
        if "inputRequests" in result or result["isError"]:
            return result
        validator: Any = Draft202012Validator(self.schemas[tool])
        validator.validate(result["structuredContent"])
        return result


def text(result: Message) -> str:
    assert result["isError"], result
    [block] = result["content"]
    return str(block["text"])


def text_if_error(result: Message) -> str:
    return text(result) if result["isError"] else ""


@dataclass
class StrictServer:
    """Our server with the operator's access to a demo, with access to an account without anything, and without any."""

    network: Tampered
    parts: ServerParts[Any]
    folder: Path
    clients: dict[tuple[str, str], Client]

    def demo(self) -> Sandbox:
        """Begin anew with a demo, and nothing in the folder for exchange."""
        for leftover in self.folder.iterdir():
            leftover.unlink()
        self.network.sandbox = Sandbox.demo()
        return self.network.sandbox

    def client(self, version: str, shows: str = "urls") -> Client:
        return self.clients[version, shows]

    async def call(self, client: Client, tool: str, arguments: dict[str, Any], change: Change) -> Message:
        """Call a tool while Nextcloud answers something else."""
        self.network.change = change
        try:
            return await client.call(tool, arguments)
        finally:
            self.network.change = None


@asynccontextmanager
async def opened(folder: Path, sandbox: Sandbox, **given: str) -> AsyncGenerator[StrictServer]:
    network = Tampered(sandbox)
    (folder / "files").mkdir(parents=True)
    config = environment.load(
        nextcloud_host="http://localhost",
        data_dir=folder / "data",
        local_folder=folder / "files",
        toolsets="all",
        output_schemas=True,
        hold_seconds=0,
        **given,
    )
    page_url = PublicUrls("http://127.0.0.1", "http://127.0.0.1").page_url
    parts = build_server(Personal(config, page_url=page_url, overrides=Overrides(transport=network)))
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    asgi = parts.mcp.streamable_http_app(transport_security=security)
    async with (
        parts.running(resume=False),
        parts.mcp.session_manager.run(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(asgi), timeout=60) as http,
    ):
        harness = StrictServer(network, parts, folder / "files", {})
        for version, kind in VERSIONS.items():
            for shows, capabilities in (("urls", URL_MODE), ("text", {})):
                wire = kind(http, "http://localhost/mcp", capabilities=capabilities, name=shows)
                await wire.open()
                harness.clients[version, shows] = Client(wire, version)
        yield harness


@pytest.fixture(scope="module")
async def connected(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[StrictServer]:
    access = {"nextcloud_username": "alice", "nextcloud_app_password": "alice"}
    async with opened(tmp_path_factory.mktemp("connected"), Sandbox.demo(), **access) as harness:
        for version in VERSIONS:
            await harness.client(version).learn()
        yield harness


@pytest.fixture(scope="module")
async def stranger(
    connected: StrictServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[StrictServer]:
    async with opened(tmp_path_factory.mktemp("stranger"), Sandbox.demo()) as harness:
        for (version, _), client in harness.clients.items():
            client.schemas = connected.client(version).schemas
        yield harness


@pytest.fixture(scope="module")
async def every() -> dict[str, dict[str, Any]]:
    """Give arguments for all tools; each demo has the same."""
    return await usual(account_over(Tampered(Sandbox.demo())))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tool", SPECS)
async def test_a_strict_client_gets_each_of_the_six_results_of_a_tool(
    tool: str, version: str, connected: StrictServer, stranger: StrictServer, every: dict[str, dict[str, Any]]
) -> None:
    """N11: normal, empty, not connected, declined, and an upstream that answers 404 and 500."""
    client, demo, nobody = connected.client(version), connected.demo(), Sandbox()
    nobody.add_user("alice")

    Draft202012Validator.check_schema(client.schemas[tool])
    arguments = await working(account_over(connected.network), tool, every)
    normal = await client.call(tool, arguments)
    connected.network.sandbox = nobody
    nothing = await client.call(tool, arguments)
    connected.network.sandbox = demo
    missing = await connected.call(client, tool, arguments, refused(404))
    failed = await connected.call(client, tool, arguments, refused(500))

    assert not normal["isError"], normal["content"]
    # Who has nothing is shown nothing, or is told that what the arguments name is not there.
    assert nothing["isError"] == (text_if_error(nothing) != "")
    for sentence in (text(missing), text(failed), text_if_error(nothing)):
        assert "Something went wrong inside" not in sentence
    await assert_asks_and_takes_a_no(tool, arguments, stranger, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tool", CONNECTION_TOOLS)
async def test_a_strict_client_gets_each_result_of_the_tools_for_the_connection(
    tool: str, version: str, connected: StrictServer, stranger: StrictServer
) -> None:
    """N11: they answer without a connection too; the one that asks for it asks as every other tool does."""
    client = connected.client(version)
    connected.demo()

    Draft202012Validator.check_schema(client.schemas[tool])
    normal = await client.call(tool, {})
    missing = await connected.call(client, tool, {}, refused(404))
    failed = await connected.call(client, tool, {}, refused(500))
    asked = await stranger.client(version, "text").call(tool, {})

    for result in (normal, missing, failed):
        assert "Something went wrong inside" not in text_if_error(result)
    if tool == "request_nextcloud_access":
        assert "opens this link in a browser" in text(asked)


async def assert_asks_and_takes_a_no(
    tool: str, arguments: dict[str, Any], stranger: StrictServer, version: str
) -> None:
    """Call while nothing is connected: the link comes in the client's own form, and a refusal is told in words."""
    services = await stranger.parts.services.get()
    assert services.provisioning is not None
    client = stranger.client(version)
    asked = await client.call(tool, arguments)
    if version == "2026-07-28":
        [question] = asked["inputRequests"].values()
        url = question["params"]["url"]
        await services.provisioning.decline(url.rpartition("=")[2])
        accepted = {key: {"action": "accept"} for key in asked["inputRequests"]}
        declined = await client.call(
            tool, arguments, inputResponses=accepted, requestState=asked["requestState"]
        )
    else:
        [wanted] = UrlElicitationRequiredError.from_error(cast("ErrorData", asked["error"])).elicitations
        url = wanted.url
        await services.provisioning.decline(str(wanted.elicitation_id))
        declined = await client.call(tool, arguments)
    told = await stranger.client(version, "text").call(tool, arguments)
    [link] = [line for line in text(told).splitlines() if "://" in line]
    await services.provisioning.decline(link.rpartition("=")[2])
    declined_in_words = await stranger.client(version, "text").call(tool, arguments)

    assert url.startswith("http://127.0.0.1/oauth/provision?elicitationId=")
    assert link.startswith("http://127.0.0.1/oauth/provision?elicitationId=")
    assert text(declined) == text(declined_in_words)
    assert text(declined).startswith(DECLINED)

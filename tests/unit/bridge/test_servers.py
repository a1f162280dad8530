import pytest

from nextcloud_mcp_server.bridge.configuration import Configuration, Server
from nextcloud_mcp_server.bridge.servers import Entry, State, find_tool, opened_servers
from nextcloud_mcp_server.errors import ServerUnknown, ToolUnknown, TransportFailed
from tests.unit.bridge.conftest import MakeServer

pytestmark = pytest.mark.anyio

BROKEN = Server(id="broken", command="no-such-program")


@pytest.mark.process
async def test_a_server_that_fails_is_reported_and_the_others_are_used(
    stdio_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    off = stdio_server(id="off", disabled=True)

    async with opened_servers(Configuration((stdio_server(id="one"), BROKEN, off))) as servers:
        await servers.connect_all()
        states = {name: entry.state for name, entry in servers.entries.items()}
        names = [name for _, _, name in servers.names_of_tools()]

    assert states == {"one": State.CONNECTED, "broken": State.FAILED, "off": State.DISABLED}
    assert names[0] == "one__echo"
    assert "cannot be started" in servers.entries["broken"].reason
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("Failed to connect to MCP server broken: ")
    assert servers.entries["one"].state is State.DISCONNECTED


@pytest.mark.process
async def test_the_names_of_a_single_server_are_its_own(stdio_server: MakeServer) -> None:
    async with opened_servers(Configuration((stdio_server(),))) as servers:
        await servers.connect_all()

        assert next(iter(servers.names_of_tools()))[2] == "echo"


@pytest.mark.process
async def test_a_server_is_connected_when_it_is_needed_and_again_after_it_was_left(
    stdio_server: MakeServer,
) -> None:
    async with opened_servers(Configuration((stdio_server(),))) as servers:
        first = await servers.connected("test")
        same = await servers.connected("test")
        await servers.disconnect("test")
        left = servers.entry("test").state
        second = await servers.reconnect("test")
        tools = await servers.refresh_tools("test")

    assert same is first
    assert left is State.DISCONNECTED
    assert second is not first
    assert len(tools) == 12


async def test_unknown_and_disabled_servers_are_named() -> None:
    async with opened_servers(Configuration((BROKEN.model_copy(update={"disabled": True}),))) as servers:
        with pytest.raises(
            ServerUnknown, match='MCP server not found: brocken; did you mean "broken"\\? Configured'
        ):
            await servers.connected("brocken")
        with pytest.raises(TransportFailed, match="is disabled"):
            await servers.connected("broken")


async def test_an_unknown_tool_is_named_with_its_server() -> None:
    with pytest.raises(ToolUnknown) as caught:
        find_tool(Entry(BROKEN), "x")

    assert str(caught.value) == "MCP tool not found: server=broken, tool=x."


@pytest.mark.process
async def test_two_tools_of_one_name_are_one(
    stdio_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened_servers(Configuration((stdio_server("twice=echo"),))) as servers:
        await servers.connected("test")
        names = [tool.name for tool in servers.entry("test").tools]

    assert names.count("echo") == 1
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "The MCP server test lists two tools of one name."
    ]

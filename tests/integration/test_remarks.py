"""What has to be said beside an answer reaches the client: with the result of a tool and with a resource."""

from pathlib import Path

from mcp_types import TextResourceContents
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.integration.personal_app import Asked, PersonalApp, open_personal_app

FOREIGN = (
    b"<d:response><d:href>http://internal.lan/elsewhere/x</d:href><d:propstat><d:prop/>"
    b"<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"
)


class OneMore:
    """Stands before a Nextcloud and adds a row of another host to each list it answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def spoil(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [one for one in message["headers"] if one[0].lower() != b"content-length"]
                message = {**message, "headers": kept}
            elif message["type"] == "http.response.body":
                message = {**message, "body": message["body"].replace(b"</d:multistatus>", FOREIGN)}
            await send(message)

        is_list = scope["type"] == "http" and scope["method"] in ("PROPFIND", "REPORT")
        await self._app(scope, receive, spoil if is_list else send)


async def connect(personal_app: PersonalApp) -> None:
    asked = Asked(personal_app)
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
    ):
        await client.call_tool("request_nextcloud_access", {})


async def test_a_tool_and_a_resource_say_that_rows_were_left_out(tmp_path: Path) -> None:
    """A remark is a part of its own beside a resource, whose content stays what it is."""
    sandbox = Sandbox.demo()
    sandbox.app.add_middleware(OneMore)
    async with open_personal_app(tmp_path, sandbox) as personal_app:
        await personal_app.stop()
        await personal_app.start(toolsets="files,contacts")
        await connect(personal_app)
        async with personal_app.client() as client:
            result = await client.call_tool("nc_files_list_folder", {})
            found = await client.call_tool("nc_contacts_search_contacts", {"limit": 1})
            assert found.structured_content is not None
            contact = found.structured_content["contacts"][0]
            uri = f"nc://contacts/{contact['book']}/{contact['id']}"
            read = await client.read_resource(uri)

    assert result.structured_content is not None
    [remark] = result.structured_content["remarks"]
    assert "are left out: they are named under another host" in remark
    first, second = read.contents
    assert str(first.uri) == uri
    assert isinstance(second, TextResourceContents)
    assert (str(second.uri), second.mime_type) == (f"{uri}#remarks", "text/plain")
    assert second.text.startswith("1 of 2 entries")

import httpx2
import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier, Session
from nextcloud_mcp_server.web.open_streams import OpenStreamTracker
from tests.sdk_request import Channel, request

HEADERS = {"Mcp-Session-Id": "s1"}


class Endpoint:
    """Answers as it is told, and looks meanwhile whether the session is heard to listen."""

    def __init__(self) -> None:
        self.change_notifier = ChangeNotifier(lambda _: "alice")
        session = self.change_notifier.join(request(session="s1", channel=Channel()))
        assert session is not None
        self.session: Session = session
        self.status = 200
        self.seen: list[bool] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def look(message: Message) -> None:
            await send(message)
            self.seen.append(self.attended)

        await Response("x", self.status)(scope, receive, look)

    @property
    def attended(self) -> bool:
        return self.change_notifier.attends(self.session)

    def client(self) -> httpx2.AsyncClient:
        layer = OpenStreamTracker(self, change_notifier=self.change_notifier)
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(layer), base_url="https://mcp.test")


async def test_a_session_is_attended_while_its_stream_is_open() -> None:
    endpoint, opened = Endpoint(), list[bool]()
    endpoint.change_notifier.on_stream = lambda: opened.append(True)

    async with endpoint.client() as client:
        await client.get("/mcp", headers=HEADERS)

    assert endpoint.seen == [True, True]
    assert opened == [True]
    assert not endpoint.attended


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", HEADERS, 409),
        ("GET", HEADERS, 404),
        ("GET", {"Mcp-Session-Id": "s2"}, 200),
        ("GET", {}, 200),
        ("POST", HEADERS, 200),
        ("DELETE", HEADERS, 200),
    ],
)
async def test_what_opens_no_stream_of_the_session_does_not_count(
    method: str, headers: dict[str, str], status: int
) -> None:
    endpoint = Endpoint()
    endpoint.status = status

    async with endpoint.client() as client:
        answer = await client.request(method, "/mcp", headers=headers)

    assert answer.status_code == status
    assert not any(endpoint.seen)


async def test_the_next_stream_may_open_before_the_end_of_the_last_is_noted() -> None:
    endpoint = Endpoint()
    endpoint.change_notifier.stream_opened("s1")

    async with endpoint.client() as client:
        await client.get("/mcp", headers=HEADERS)
    still = endpoint.attended
    endpoint.change_notifier.stream_closed("s1")

    assert still
    assert not endpoint.attended


def test_over_stdio_there_is_nothing_to_open() -> None:
    change_notifier = ChangeNotifier(lambda _: "alice")
    session = change_notifier.join(request(channel=Channel()))

    assert session is not None
    assert change_notifier.attends(session)


async def test_a_client_that_names_its_last_event_gets_a_stream_from_now_on() -> None:
    """Nothing is kept to be replayed, and the SDK answers nothing at all to the header."""
    endpoint, seen = Endpoint(), list[list[str]]()

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append([name.decode() for name, _ in scope["headers"]])
        await endpoint(scope, receive, send)

    layer = OpenStreamTracker(look, change_notifier=endpoint.change_notifier)
    transport = httpx2.ASGITransport(layer)
    async with httpx2.AsyncClient(transport=transport, base_url="https://mcp.test") as client:
        answer = await client.get("/mcp", headers={**HEADERS, "Last-Event-ID": "7"})

    assert answer.status_code == 200
    assert "last-event-id" not in seen[0]
    assert "mcp-session-id" in seen[0]

import httpx2
import pytest
from starlette.applications import Starlette

from nextcloud_mcp_server.errors import IssuerUnavailable, StorageError, TokenRefused
from nextcloud_mcp_server.web.backchannel import LOGOUT_PATH, Logouts, logout_route


class Receiver:
    """Takes every logout token, or raises what a test wants it to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.tokens: list[str] = []
        self._error = error

    async def receive(self, token: str) -> None:
        self.tokens.append(token)
        if self._error is not None:
            raise self._error


async def post(receiver: Receiver, **form: str) -> httpx2.Response:
    async def logouts() -> Logouts:
        return receiver

    transport = httpx2.ASGITransport(Starlette(routes=[logout_route(logouts)]))
    async with httpx2.AsyncClient(transport=transport, base_url="https://mcp.test") as client:
        return await client.post(LOGOUT_PATH, data=form)


async def test_a_logout_token_is_handed_on() -> None:
    receiver = Receiver()

    answer = await post(receiver, logout_token="t1")

    assert (answer.status_code, receiver.tokens) == (200, ["t1"])


async def test_without_a_token_nothing_is_handed_on() -> None:
    receiver = Receiver()

    answer = await post(receiver)

    assert (answer.status_code, receiver.tokens) == (400, [])


async def test_why_a_token_was_refused_is_for_the_log_alone() -> None:
    answer = await post(Receiver(TokenRefused("The token is of another issuer.")), logout_token="t1")

    assert answer.status_code == 400
    assert "issuer" not in answer.text


@pytest.mark.parametrize("error", [StorageError("disk full"), IssuerUnavailable("silent")])
async def test_a_logout_that_could_not_be_taken_is_to_be_sent_again(error: Exception) -> None:
    answer = await post(Receiver(error), logout_token="t1")

    assert answer.status_code == 503
    assert str(error) not in answer.text

"""Two servers that share one PostgreSQL, as behind a load balancer: what one begins, the other may finish."""

from pathlib import Path

import httpx2

from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.oidc_app import open_oidc_app
from tests.integration.personal_app import Asked


class Balancer(httpx2.AsyncHTTPTransport):
    """Sends what is meant for one port to another one, and keeps the Host, as a load balancer does."""

    def __init__(self, port: int, *, to: int) -> None:
        super().__init__()
        self._port, self._to = port, to
        self.sent = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.port != self._port:
            return await super().handle_async_request(request)
        self.sent += 1
        return await super().handle_async_request(
            httpx2.Request(
                request.method,
                request.url.copy_with(port=self._to),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )


async def test_a_call_that_waits_at_one_replica_goes_on_when_consent_is_given_at_another(
    tmp_path: Path, postgres_url: str
) -> None:
    async with open_oidc_app(tmp_path, database_url=postgres_url) as oidc_app, oidc_app.replica() as port:
        balancer = Balancer(httpx2.URL(oidc_app.url).port or 0, to=port)
        async with httpx2.AsyncClient(timeout=60, transport=balancer) as browser:
            alice = Person("alice", "alice", browser=browser)
            asked = Asked(oidc_app).by(alice.consent)
            async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as client:
                result = await client.call_tool("nc_notes_list_notes", {})

    assert not result.is_error
    assert len(asked.urls) == 1
    assert balancer.sent > 3

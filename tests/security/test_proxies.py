"""Attack: pretend to be another user, somewhere else, by headers that a reverse proxy would write."""

from ipaddress import ip_network

import httpx2
import pytest

from nextcloud_mcp_server.web.limits import AddressLimits, Limits, Rates
from nextcloud_mcp_server.web.middleware import guard
from tests.single_user_pages import HOST, ORIGIN, application, config

PROXY = "10.0.0.7"


def client(peer: str, *, limits: Limits | None = None) -> httpx2.AsyncClient:
    settings = config(refuse_forwarded=False, proxies=(ip_network(PROXY),), bearer_secret=None)
    inner = application(settings=config(bearer_secret=None, refuse_forwarded=False))
    app = guard(AddressLimits(inner, limits or Limits()), settings)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app, client=(peer, 1)), base_url=ORIGIN)


async def test_a_stranger_s_forwarded_host_does_not_replace_the_real_one() -> None:
    async with client("203.0.113.9") as stranger:
        fine = await stranger.get("/healthz", headers={"X-Forwarded-Host": "evil.example"})
        foreign = await stranger.get("/healthz", headers={"Host": "evil.example", "X-Forwarded-Host": HOST})

    assert (fine.status_code, foreign.status_code) == (200, 421)


async def test_a_foreign_name_is_refused_from_a_trusted_proxy_too() -> None:
    async with client(PROXY) as proxy:
        answer = await proxy.get("/healthz", headers={"X-Forwarded-Host": "evil.example"})

    assert answer.status_code == 421


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "True-Client-IP"])
async def test_a_stranger_does_not_get_around_the_limit_by_naming_other_addresses(header: str) -> None:
    async with client("203.0.113.9", limits=Limits(Rates(page=3))) as stranger:
        answers = [
            await stranger.get("/oauth/provision", headers={header: f"198.51.100.{n}"}) for n in range(4)
        ]

    assert answers[-1].status_code == 429


async def test_behind_a_proxy_each_person_has_a_limit_of_their_own() -> None:
    async with client(PROXY, limits=Limits(Rates(page=3))) as proxy:
        one = [
            await proxy.get("/oauth/provision", headers={"X-Forwarded-For": "198.51.100.1"}) for _ in range(4)
        ]
        forged = await proxy.get("/oauth/provision", headers={"X-Forwarded-For": "192.0.2.1, 198.51.100.1"})
        other = await proxy.get("/oauth/provision", headers={"X-Forwarded-For": "198.51.100.2"})

    assert one[-1].status_code == 429
    assert forged.status_code == 429
    assert other.status_code != 429

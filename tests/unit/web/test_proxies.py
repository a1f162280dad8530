from ipaddress import ip_network

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from nextcloud_mcp_server.web.proxies import TrustedProxies, client_address, network_of

PROXY = "10.0.0.7"
NETWORKS = (ip_network("10.0.0.0/24"), ip_network("fd00::/8"))


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope)
    answer = JSONResponse(
        {
            "client": client_address(scope),
            "scheme": scope["scheme"],
            "host": request.headers.getlist("host"),
            "headers": sorted(name for name in request.headers if "forward" in name or name == "via"),
        }
    )
    await answer(scope, receive, send)


async def seen(peer: str, headers: list[tuple[str, str]]) -> dict[str, object]:
    transport = httpx2.ASGITransport(TrustedProxies(echo, NETWORKS), client=(peer, 1234))
    async with httpx2.AsyncClient(transport=transport, base_url="http://inside:8765") as client:
        return (await client.get("/", headers=headers)).json()


async def test_what_a_stranger_claims_is_neither_believed_nor_passed_on() -> None:
    found = await seen(
        "203.0.113.9",
        [
            ("X-Forwarded-For", "198.51.100.1"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "mcp.example.org"),
            ("Forwarded", "for=198.51.100.1"),
            ("Via", "1.1 x"),
        ],
    )

    assert found == {"client": "203.0.113.9", "scheme": "http", "host": ["inside:8765"], "headers": []}


async def test_a_trusted_proxy_says_who_asks_under_which_name_and_how() -> None:
    found = await seen(
        PROXY,
        [
            ("X-Forwarded-For", "198.51.100.1"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "mcp.example.org"),
        ],
    )

    assert found == {"client": "198.51.100.1", "scheme": "https", "host": ["mcp.example.org"], "headers": []}


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        (["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
        (["1.1.1.1, 198.51.100.1, 10.0.0.9"], "198.51.100.1"),
        (["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
        (["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
        (["198.51.100.1, unknown, 10.0.0.9"], "10.0.0.9"),
        (["198.51.100.1:4711"], "198.51.100.1"),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["2001:db8::1"], "2001:db8::1"),
        (["::ffff:198.51.100.1"], "198.51.100.1"),
        (["' OR 1=1"], PROXY),
        ([], PROXY),
    ],
)
async def test_of_a_chain_the_first_address_from_the_right_that_is_no_proxy_of_ours_counts(
    chain: list[str], client: str
) -> None:
    found = await seen(PROXY, [("X-Forwarded-For", value) for value in chain])

    assert found["client"] == client


@pytest.mark.parametrize("several", [["evil.example, mcp.example.org"], ["evil.example", "mcp.example.org"]])
async def test_of_several_names_and_schemes_the_last_counts_which_our_own_proxy_wrote(
    several: list[str],
) -> None:
    hosts = [("X-Forwarded-Host", value) for value in several]

    found = await seen(PROXY, [*hosts, ("X-Forwarded-Proto", "http, https")])

    assert (found["host"], found["scheme"]) == (["mcp.example.org"], "https")


async def test_a_scheme_that_is_none_is_left_alone() -> None:
    found = await seen(PROXY, [("X-Forwarded-Proto", "javascript")])

    assert found["scheme"] == "http"


async def test_a_proxy_reached_over_ipv6_or_a_socket_for_both_families_is_known() -> None:
    headers = [("X-Forwarded-For", "198.51.100.1")]

    assert (await seen("fd00::1", headers))["client"] == "198.51.100.1"
    assert (await seen("::ffff:10.0.0.7", headers))["client"] == "198.51.100.1"


async def test_a_peer_without_an_address_is_a_stranger() -> None:
    sent: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        sent.append(scope)

    async def unused() -> Message:
        raise NotImplementedError

    async def unsent(_: Message) -> None:
        raise NotImplementedError

    headers = [(b"x-forwarded-for", b"198.51.100.1")]
    scope: Scope = {"type": "http", "client": None, "scheme": "http", "headers": headers}
    await TrustedProxies(app, NETWORKS)(scope, unused, unsent)
    await TrustedProxies(app, NETWORKS)({"type": "lifespan"}, unused, unsent)

    assert [client_address(each) for each in sent] == ["", ""]
    assert sent[0]["headers"] == []


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("", ""),
        ("unix", ""),
    ],
)
def test_a_place_is_the_network_of_an_address_and_names_no_machine(address: str, network: str) -> None:
    assert network_of(address) == network


async def test_the_operator_is_told_once_of_a_proxy_that_the_settings_do_not_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = TrustedProxies(echo, NETWORKS)
    for peer in ("192.0.2.1", "203.0.113.9", PROXY):
        transport = httpx2.ASGITransport(app, client=(peer, 1234))
        async with httpx2.AsyncClient(transport=transport, base_url="http://inside:8765") as client:
            await client.get("/")
            await client.get("/", headers={"X-Forwarded-For": "198.51.100.1"})

    (line,) = caplog.messages
    assert "192.0.2.1" in line
    assert "TRUSTED_PROXIES" in line

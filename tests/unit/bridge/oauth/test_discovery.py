"""Where the authorization server is found, and what is refused (RFC 9728, RFC 8414, OpenID Connect Discovery)."""

import httpx2
import pytest

from nextcloud_mcp_server.bridge.browser import UnsafeUrl
from nextcloud_mcp_server.bridge.oauth.discovery import (
    AuthorizationServer,
    Resource,
    find_resource,
    find_server,
    metadata_urls,
    wanted_scopes,
)
from nextcloud_mcp_server.bridge.oauth.network import Network
from nextcloud_mcp_server.errors import AuthorizationFailed
from tests.authorization_server_fake import (
    ISSUER,
    RESOURCE_METADATA,
    SERVER,
    SERVER_METADATA,
    FakeServers,
    described,
    target,
)

ROOT_RESOURCE = "https://mcp.example/.well-known/oauth-protected-resource"
TENANT = "https://as.example/tenant/one"
RESOURCE = Resource(SERVER, (ISSUER,))


async def test_a_servers_own_header_says_where_its_metadata_is() -> None:
    servers = FakeServers(resource=None)
    servers.replies["https://mcp.example/meta"] = httpx2.Response(
        200, json={"resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": ["read"]}
    )

    found = await find_resource(servers.network(), target(), "https://mcp.example/meta")

    assert found == Resource(SERVER, (ISSUER,), ("read",))
    assert servers.asked() == ["https://mcp.example/meta"]


async def test_without_it_the_path_comes_before_the_root() -> None:
    servers = FakeServers(resource=None)
    servers.replies[ROOT_RESOURCE] = httpx2.Response(
        200, json={"resource": "https://mcp.example", "authorization_servers": [ISSUER]}
    )

    found = await find_resource(servers.network(), target(), None)

    # As it was sent, without a slash that a parser would add.
    assert found == Resource("https://mcp.example", (ISSUER,))
    assert servers.asked() == [RESOURCE_METADATA, ROOT_RESOURCE]


async def test_a_server_of_before_rfc_9728_is_its_own_authorization_server() -> None:
    servers = FakeServers(resource=None)

    found = await find_resource(servers.network(), target(), None)

    assert found == Resource(SERVER, ("https://mcp.example",), described=False)


@pytest.mark.parametrize(
    "resource",
    [
        "https://other.example/mcp",
        "https://mcp.example/other",
        "https://mcp.example:444/mcp",
        "http://mcp.example/mcp",
    ],
)
async def test_metadata_of_another_server_is_refused(resource: str) -> None:
    servers = FakeServers(resource={"resource": resource, "authorization_servers": [ISSUER]})

    with pytest.raises(AuthorizationFailed, match="for another server"):
        await find_resource(servers.network(), target(), RESOURCE_METADATA)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_cannot_answer_now_is_not_taken_for_an_old_one(status: int) -> None:
    servers = FakeServers()
    servers.replies[RESOURCE_METADATA] = httpx2.Response(status)

    with pytest.raises(AuthorizationFailed, match="cannot be read now"):
        await find_resource(servers.network(), target(), None)


@pytest.mark.parametrize(
    "named",
    [
        "http://mcp.example/meta",
        "http://127.0.0.1:8080/admin",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "https://user:password@mcp.example/meta",
        "https://[::1",
    ],
)
async def test_a_server_cannot_send_the_client_elsewhere(named: str) -> None:
    servers = FakeServers()

    with pytest.raises(UnsafeUrl, match="https"):
        await find_resource(servers.network(), target(), named)

    assert servers.requests == []


async def test_a_server_on_this_computer_may_name_another_port_of_it() -> None:
    servers = FakeServers()
    network = Network("http://127.0.0.1:8000/mcp", servers.http)

    assert network.check("http://127.0.0.1:9000/token", "x") == "http://127.0.0.1:9000/token"
    with pytest.raises(UnsafeUrl):
        network.check("http://192.168.1.1/token", "x")


@pytest.mark.parametrize(
    ("issuer", "urls"),
    [
        (
            TENANT,
            [
                # RFC 8414 §3.1 and §5, then OpenID Connect Discovery §4, then what servers do besides.
                "https://as.example/.well-known/oauth-authorization-server/tenant/one",
                "https://as.example/.well-known/openid-configuration/tenant/one",
                "https://as.example/tenant/one/.well-known/openid-configuration",
                "https://as.example/tenant/one/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ],
        ),
        (
            ISSUER,
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ],
        ),
        (
            "https://as.example/",
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ],
        ),
    ],
)
async def test_every_place_of_an_issuers_metadata_is_tried_in_order(issuer: str, urls: list[str]) -> None:
    assert metadata_urls(issuer) == urls
    for number, url in enumerate(urls):
        servers = FakeServers()
        servers.replies |= {other: httpx2.Response(404) for other in urls}
        servers.replies[url] = httpx2.Response(200, json=described(issuer=issuer))

        found = await find_server(servers.network(), target(), Resource(SERVER, (issuer,)))

        assert found.issuer == issuer
        assert servers.asked() == urls[: number + 1]


async def test_what_is_no_metadata_is_passed_over() -> None:
    servers = FakeServers()
    servers.replies[SERVER_METADATA] = httpx2.Response(200, text="<html>Not found</html>")
    servers.replies[f"{ISSUER}/.well-known/openid-configuration"] = httpx2.Response(200, json=described())

    assert (await find_server(servers.network(), target(), RESOURCE)).token_endpoint == f"{ISSUER}/token"


@pytest.mark.parametrize(
    "issuer", ["https://evil.example", "https://as.example/", "https://AS.example", "x", ""]
)
async def test_metadata_that_names_another_issuer_is_not_used(issuer: str) -> None:
    servers = FakeServers(metadata=described(issuer=issuer))

    with pytest.raises(AuthorizationFailed, match=r"another issuer|not found"):
        await find_server(servers.network(), target(), RESOURCE)


@pytest.mark.parametrize("methods", [None, [], ["plain"], ["s256"]])
async def test_without_pkce_s256_no_one_signs_in(methods: list[str] | None) -> None:
    servers = FakeServers(metadata=described(code_challenge_methods_supported=methods))

    with pytest.raises(AuthorizationFailed, match="PKCE S256 not supported by authorization server"):
        await find_server(servers.network(), target(), RESOURCE)


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "registration_endpoint"])
@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://as.example/x",
        "http://127.0.0.1/x",
        "https://u:p@as.example/x",
        "//as.example",
    ],
)
async def test_an_endpoint_that_is_not_encrypted_is_refused(name: str, url: str) -> None:
    servers = FakeServers(metadata=described(**{name: url}))

    with pytest.raises(UnsafeUrl):
        await find_server(servers.network(), target(), RESOURCE)


@pytest.mark.parametrize(
    "url", ["https://as.example/$(id)", "https://as.example/a b", "https://as.example/`id`"]
)
async def test_an_authorization_url_with_characters_of_a_shell_is_refused(url: str) -> None:
    servers = FakeServers(metadata=described(authorization_endpoint=url))

    with pytest.raises(UnsafeUrl, match="nothing was opened"):
        await find_server(servers.network(), target(), RESOURCE)


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint"])
async def test_metadata_without_an_endpoint_is_refused(name: str) -> None:
    servers = FakeServers(metadata=described(**{name: None}))

    with pytest.raises((AuthorizationFailed, UnsafeUrl)):
        await find_server(servers.network(), target(), RESOURCE)


async def test_the_configuration_may_name_the_metadata() -> None:
    servers = FakeServers()
    servers.replies["https://as.example/own"] = httpx2.Response(
        200, json=described(issuer="https://as.example/own-id")
    )

    found = await find_server(servers.network(), target(metadata_url="https://as.example/own"), RESOURCE)

    assert found.issuer == "https://as.example/own-id"


async def test_manual_asks_no_one() -> None:
    servers = FakeServers()
    manual = target(
        manual=True,
        client_id="me",
        authorization_url="https://as.example/a",
        token_url="https://as.example/t",
    )

    found = await find_server(servers.network(), manual, RESOURCE)

    assert found == AuthorizationServer("", "https://as.example/a", "https://as.example/t")
    assert servers.requests == []


@pytest.mark.parametrize("missing", [{"client_id": None}, {"authorization_url": None}, {"token_url": None}])
async def test_manual_without_an_endpoint_says_what_is_missing(missing: dict[str, None]) -> None:
    fields = {"client_id": "me", "authorization_url": "https://a.example/", "token_url": "https://a.example/"}

    with pytest.raises(AuthorizationFailed, match="needs client_id, auth_url and token_url"):
        await find_server(FakeServers().network(), target(manual=True, **(fields | missing)), RESOURCE)


@pytest.mark.parametrize(
    ("configured", "challenged", "of_the_server", "known", "expected"),
    [
        ((), "a b", ("c",), (), ("a", "b")),
        ((), None, ("c", "d"), (), ("c", "d")),
        ((), None, None, (), ()),
        ((), None, (), (), ()),
        (("x",), "a b", ("c",), ("offline_access",), ("x",)),
        ((), "a", None, ("openid", "offline_access"), ("a", "offline_access")),
        ((), "a offline_access", None, ("offline_access",), ("a", "offline_access")),
        ((), None, None, ("offline_access",), ()),
    ],
)
def test_which_scopes_are_asked_for(
    configured: tuple[str, ...],
    challenged: str | None,
    of_the_server: tuple[str, ...] | None,
    known: tuple[str, ...],
    expected: tuple[str, ...],
) -> None:
    server = AuthorizationServer(ISSUER, "", "", scopes=known)
    resource = Resource(SERVER, (ISSUER,), of_the_server)

    assert wanted_scopes(target(scopes=configured), resource, server, challenged) == expected

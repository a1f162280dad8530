"""Who this client is: a configured id, then its document, then a registration, then a clear error."""

from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.bridge.oauth.discovery import AuthorizationServer
from nextcloud_mcp_server.bridge.oauth.grant import ClientIdentity
from nextcloud_mcp_server.bridge.oauth.registration import identify
from nextcloud_mcp_server.errors import AuthorizationFailed
from tests.authorization_server_fake import ISSUER, FakeServers, target

CALLBACK = "http://127.0.0.1:5000/callback"
DOCUMENT = "https://me.example/client.json"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
KNOWN = ClientIdentity(client_id="known", redirect_uri=CALLBACK, origin="registered")


def offering(*methods: str, registers: bool = True, takes_documents: bool = False) -> AuthorizationServer:
    return AuthorizationServer(
        ISSUER,
        f"{ISSUER}/authorize",
        f"{ISSUER}/token",
        registration_endpoint=f"{ISSUER}/register" if registers else None,
        token_auth_methods=methods or None,
        takes_documents=takes_documents,
    )


async def identity(
    servers: FakeServers,
    server: AuthorizationServer,
    *,
    known: ClientIdentity | None = None,
    **configured: str | None,
) -> ClientIdentity:
    return await identify(
        servers.network(),
        target(**configured),
        server,
        redirect_uri=CALLBACK,
        scopes=("read",),
        known=known,
        clock=lambda: NOW,
    )


@pytest.mark.parametrize("takes_documents", [True, False])
@pytest.mark.parametrize("registers", [True, False])
@pytest.mark.parametrize("document", [DOCUMENT, None])
@pytest.mark.parametrize("static", ["static-id", None])
async def test_the_first_way_that_works_is_taken(
    static: str | None,
    document: str | None,
    registers: bool,  # noqa: FBT001 - a parameter of the test
    takes_documents: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    servers, server = FakeServers(), offering(registers=registers, takes_documents=takes_documents)
    if static is None and not (document and takes_documents) and not registers:
        with pytest.raises(
            AuthorizationFailed, match=r"no viable client registration mechanism.*set client_id"
        ):
            await identity(servers, server, client_id=static, client_metadata_url=document)
        return
    found = await identity(servers, server, client_id=static, client_metadata_url=document)

    if static:
        assert (found.client_id, found.origin) == (static, "static")
    elif document and takes_documents:
        assert (found.client_id, found.origin) == (DOCUMENT, "document")
    else:
        assert (found.client_id, found.origin) == ("client-1", "registered")
    assert len(servers.requests) == (found.origin == "registered")
    assert found.redirect_uri == CALLBACK


async def test_a_registration_describes_a_program_on_the_users_computer() -> None:
    servers = FakeServers()

    await identity(servers, offering())

    sent = httpx2.Response(200, content=servers.requests[0].content).json()
    assert sent == {
        "client_name": "Nextcloud MCP client",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": "read",
        "application_type": "native",
        "software_id": "nextcloud-mcp-server",
    }


@pytest.mark.parametrize(
    ("known", "is_used"),
    [
        (KNOWN, True),
        (KNOWN.model_copy(update={"redirect_uri": "http://127.0.0.1:6000/callback"}), False),
        (KNOWN.model_copy(update={"origin": "static"}), False),
        (KNOWN.model_copy(update={"secret_expires_at": NOW}), False),
        (KNOWN.model_copy(update={"secret_expires_at": NOW + timedelta(days=1)}), True),
    ],
)
async def test_a_registration_is_used_again_where_it_still_serves(
    known: ClientIdentity,
    is_used: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    found = await identity(FakeServers(), offering(), known=known)

    assert (found == known) is is_used


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        ((), "none"),
        (("client_secret_basic", "none"), "none"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (("client_secret_post",), "client_secret_post"),
        (("private_key_jwt",), "none"),
    ],
)
async def test_how_it_authenticates_is_asked_from_what_is_offered(
    offered: tuple[str, ...], asked: str
) -> None:
    servers = FakeServers()
    fields = {"client_id": "new", "client_secret": "the-secret", "token_endpoint_auth_method": asked}
    servers.replies[f"{ISSUER}/register"] = httpx2.Response(201, json=fields)

    found = await identity(servers, offering(*offered))

    assert (
        httpx2.Response(200, content=servers.requests[0].content).json()["token_endpoint_auth_method"]
        == asked
    )
    assert found.auth_method == asked
    assert found.client_secret == (None if asked == "none" else SecretStr("the-secret"))


@pytest.mark.parametrize(
    ("offered", "method"), [((), "client_secret_basic"), (("client_secret_post",), "client_secret_post")]
)
async def test_a_configured_secret_is_sent_as_is_offered(offered: tuple[str, ...], method: str) -> None:
    found = await identity(FakeServers(), offering(*offered), client_id="me", client_secret="the-secret")

    assert (found.auth_method, found.client_secret) == (method, SecretStr("the-secret"))


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (400, {"error": "invalid_redirect_uri", "error_description": "the-secret"}),
        (403, {"error": "the-secret"}),
        (500, {}),
        (201, {}),
        (201, {"client_id": 7, "client_secret": "the-secret"}),
        (201, {"client_id": "new", "token_endpoint_auth_method": "private_key_jwt"}),
        (201, {"client_id": "new", "token_endpoint_auth_method": "client_secret_basic"}),
    ],
)
async def test_a_registration_that_fails_is_one_sentence(status: int, fields: dict[str, object]) -> None:
    servers = FakeServers()
    servers.replies[f"{ISSUER}/register"] = httpx2.Response(status, json=fields)

    with pytest.raises(AuthorizationFailed, match="The registration of this client") as caught:
        await identity(servers, offering())

    assert "the-secret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_the_end_of_a_secret_is_kept() -> None:
    servers = FakeServers()
    for until, expected in (
        (0, None),
        (1_800_000_000, datetime.fromtimestamp(1_800_000_000, UTC)),
        (10**18, None),
    ):
        servers.replies[f"{ISSUER}/register"] = httpx2.Response(
            201, json={"client_id": "new", "client_secret": "the-secret", "client_secret_expires_at": until}
        )
        assert (await identity(servers, offering())).secret_expires_at == expected


async def test_a_document_must_have_an_https_url_with_a_path() -> None:
    with pytest.raises(AuthorizationFailed, match="client_metadata_url must be an https URL"):
        await identity(
            FakeServers(), offering(takes_documents=True), client_metadata_url="http://me.example/c"
        )

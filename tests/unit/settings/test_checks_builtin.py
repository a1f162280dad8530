"""The matrix of mode `builtin`: what serves many users without an identity provider, and what is refused."""

import pytest

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.environment import Settings, load

pytestmark = pytest.mark.usefixtures("bare_environment")

MCP = "https://mcp.example.org"
SAFE: dict[str, object] = {
    "mode": "builtin",
    "nextcloud_host": "https://cloud.example.org",
    "nextcloud_mcp_server_url": MCP,
    "token_encryption_keys": "a-key",
    "nextcloud_oauth_client_id": "at-nextcloud",
    "nextcloud_oauth_client_secret": "of-nextcloud",
    "trusted_proxies": "10.0.0.7",
}


def given(**overrides: object) -> Settings:
    return load(**(SAFE | overrides))


def refused(**overrides: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        given(**overrides)
    return str(caught.value)


def test_a_plain_nextcloud_and_one_client_there_are_enough() -> None:
    settings = given()

    assert settings.transport == "http"
    assert settings.multi_user
    assert settings.warnings == ()


def test_cursor_is_let_in_and_its_address_is_the_only_private_one_by_default() -> None:
    settings = given()

    assert settings.private_schemes == ("cursor",)
    assert settings.client_registration
    assert (settings.refresh_grace_seconds, settings.refresh_lifetime_days) == (60, 90)


def test_everything_about_clients_can_be_narrowed() -> None:
    settings = given(
        allowed_clients="claude.ai, *.example.org cursor: localhost",
        denied_clients="evil.example.org",
        allowed_groups="staff,family",
        client_registration="false",
        plain_hosts="chat.lan",
    )

    assert settings.allowed_clients == ("claude.ai", "*.example.org", "cursor:", "localhost")
    assert settings.denied_clients == ("evil.example.org",)
    assert settings.allowed_groups == ("staff", "family")
    assert not settings.client_registration
    assert settings.plain_hosts == ("chat.lan",)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"nextcloud_mcp_server_url": None}, "NEXTCLOUD_MCP_SERVER_URL is missing"),
        ({"nextcloud_mcp_server_url": "http://mcp.example.org"}, "NEXTCLOUD_MCP_SERVER_URL is not encrypted"),
        (
            {"nextcloud_mcp_server_url": f"{MCP}/nextcloud"},
            "NEXTCLOUD_MCP_SERVER_URL holds the path /nextcloud",
        ),
        (
            {"nextcloud_mcp_server_url": "https://cloud.example.org"},
            "NEXTCLOUD_MCP_SERVER_URL has the origin of NEXTCLOUD_HOST",
        ),
        ({"token_encryption_keys": None}, "TOKEN_ENCRYPTION_KEYS is missing"),
        ({"nextcloud_oauth_client_id": None}, "NEXTCLOUD_OAUTH_CLIENT_ID is missing"),
        ({"nextcloud_oauth_client_secret": None}, "NEXTCLOUD_OAUTH_CLIENT_SECRET is missing"),
        ({"nextcloud_mcp_secret": "x" * 32}, "clients send a token of the user who uses them"),
        ({"no_local_auth": True}, "--no-local-auth does not say who calls"),
        ({"sandbox": True}, "demo --mode builtin"),
        ({"transport": "stdio"}, "--transport stdio is for one user"),
        (
            {"nextcloud_username": "alice", "nextcloud_app_password": "p"},
            "would make all users one Nextcloud user",
        ),
        ({"private_schemes": "cursor,javascript"}, "PRIVATE_SCHEMES names 'javascript'"),
        ({"private_schemes": "Cursor"}, "PRIVATE_SCHEMES names 'Cursor'"),
        ({"allowed_clients": "https://claude.ai"}, "ALLOWED_CLIENTS holds 'https://claude.ai'"),
        ({"denied_clients": "*"}, "DENIED_CLIENTS holds '*'"),
        ({"plain_hosts": "chat.lan:3000"}, "PLAIN_HOSTS holds 'chat.lan:3000'"),
        ({"plain_hosts": "*.lan"}, "PLAIN_HOSTS holds '*.lan'"),
        *(
            ({"client_metadata_proxy": text}, "CLIENT_METADATA_PROXY is not the address of an HTTP proxy")
            for text in (
                "proxy.example.org:3128",
                "socks5://proxy.example.org",
                "http://",
                "http://proxy.example.org/path",
                "http://proxy.example.org:0",
                "http://[",
            )
        ),
        ({"refresh_grace_seconds": "-1"}, "Invalid REFRESH_GRACE_SECONDS: use 0 or more."),
        ({"refresh_grace_seconds": "600"}, "Invalid REFRESH_GRACE_SECONDS: use 60 or less."),
        ({"refresh_lifetime_days": "0"}, "Invalid REFRESH_LIFETIME_DAYS: use 1 or more."),
    ],
)
def test_what_cannot_work_or_be_safe_is_refused_by_its_name(
    overrides: dict[str, object], sentence: str
) -> None:
    assert sentence in refused(**overrides)


def test_settings_of_an_identity_provider_are_said_to_have_no_effect() -> None:
    settings = given(oidc_issuer="https://id.example.org", grant_provider="oidc_refresh")

    assert settings.warnings == (
        "OIDC_ISSUER has no effect with MODE=builtin: it is for MODE=oidc.",
        "GRANT_PROVIDER has no effect with MODE=builtin: it is for MODE=oidc.",
    )


def test_a_client_that_is_named_by_no_host_and_no_scheme_is_pointed_out() -> None:
    settings = given(allowed_clients="claude.ai,localhost,cursor:", denied_clients="cursor")

    (warning,) = settings.warnings
    assert warning == (
        "DENIED_CLIENTS holds 'cursor', which is taken for a host: write its whole name (cursor.ai, say), or cursor: "
        "for a scheme."
    )


def test_the_proxy_for_documents_may_need_a_password_that_nothing_shows() -> None:
    settings = given(client_metadata_proxy="http://name:canary@proxy.example.org:3128/")

    assert settings.warnings == ()
    assert settings.client_metadata_documents
    assert "canary" not in repr(settings)
    assert "canary" not in refused(client_metadata_proxy="ftp://name:canary@proxy.example.org")


def test_settings_that_leave_no_way_to_add_a_client_are_pointed_out() -> None:
    off = given(client_metadata_documents="false")
    none = given(
        client_metadata_documents="false",
        client_registration="false",
        client_metadata_proxy="http://proxy.example.org",
    )

    assert off.warnings == ()
    assert [warning.partition(":")[0] for warning in none.warnings] == [
        "CLIENT_METADATA_DOCUMENTS=false and CLIENT_REGISTRATION=false leave no way to add a client",
        "CLIENT_METADATA_PROXY has no effect with CLIENT_METADATA_DOCUMENTS=false",
    ]


def test_settings_of_this_mode_are_said_to_have_no_effect_elsewhere() -> None:
    personal = load(nextcloud_host="https://cloud.example.org", allowed_groups="staff")

    assert personal.warnings == (
        "ALLOWED_GROUPS has no effect with MODE=personal: it is for many users (MODE=oidc or MODE=builtin).",
    )


def test_the_path_of_clients_behind_the_address_is_one_fault_and_not_two() -> None:
    assert refused(nextcloud_mcp_server_url=f"{MCP}/mcp").startswith("NEXTCLOUD_MCP_SERVER_URL ends in /mcp")

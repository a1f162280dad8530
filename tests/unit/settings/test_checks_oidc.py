"""The matrix of mode `oidc`: what serves many users, and what is refused because it could not be safe."""

from ipaddress import ip_network

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.environment import Settings, load, load_draft

pytestmark = pytest.mark.usefixtures("bare_environment")

MCP = "https://mcp.example.org"
SAFE: dict[str, object] = {
    "mode": "oidc",
    "nextcloud_host": "https://cloud.example.org",
    "nextcloud_mcp_server_url": MCP,
    "token_encryption_keys": "a-key",
    "oidc_issuer": "https://id.example.org/realms/home",
    "oidc_client_id": "nextcloud-mcp",
    "oidc_client_secret": "of-the-issuer",
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


def test_a_safe_set_up_for_many_people_serves_over_http_without_a_warning() -> None:
    settings = given()

    assert settings.transport == "http"
    assert settings.warnings == ()


def test_every_setting_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for field, text in SAFE.items():
        monkeypatch.setenv(field.upper(), str(text))

    settings = load()

    assert (settings.mode, settings.transport, settings.oidc_client_id) == ("oidc", "http", "nextcloud-mcp")
    assert settings.warnings == ()


def test_the_addresses_follow_from_the_server_s_own() -> None:
    settings = given(nextcloud_mcp_server_url=f"{MCP}/")

    assert settings.server_url == MCP
    assert settings.resource_url == f"{MCP}/mcp"
    assert settings.audience == f"{MCP}/mcp"
    assert settings.sign_in_callback_url == f"{MCP}/oauth/callback/sign-in"
    assert settings.grant_callback_url == f"{MCP}/oauth/callback/nextcloud"


def test_the_audience_may_be_another_text_and_the_resource_stays_the_address() -> None:
    settings = given(oidc_audience="nextcloud-mcp-api")

    assert settings.audience == "nextcloud-mcp-api"
    assert settings.resource_url == f"{MCP}/mcp"


@pytest.mark.parametrize(
    ("overrides", "first"),
    [
        ({}, ("files:read", "files:write", "notes:read", "notes:write")),
        ({"scope_prefix": "x/", "read_only": True}, ("x/files:read", "x/notes:read")),
        ({"sign_in_scopes": "read, write"}, ("read", "write")),
        ({"sign_in_scopes": "read", "scope_prefix": "x/"}, ("x/read",)),
        # What is switched off is not asked for.
        ({"sign_in_scopes": "read write mail", "read_only": True}, ("read",)),
    ],
)
def test_clients_are_told_what_to_ask_the_identity_provider_for(
    overrides: dict[str, object], first: tuple[str, ...]
) -> None:
    assert given(**overrides).asked_words.first == first


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            {"sign_in_scopes": "read, everything"},
            "Unknown scope 'everything' in SIGN_IN_SCOPES. Use read",
        ),
        (
            {"sign_in_scopes": "write", "read_only": True},
            "SIGN_IN_SCOPES names nothing that this server offers",
        ),
    ],
)
def test_words_that_would_ask_for_nothing_are_refused(overrides: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        given(**overrides)


def test_the_callbacks_may_lie_elsewhere_on_the_same_host() -> None:
    settings = given(
        nextcloud_mcp_server_url=f"{MCP}/nextcloud",
        elicitation_callback_url="https://MCP.example.org:443/oauth/callback/",
    )

    assert settings.sign_in_callback_url == "https://MCP.example.org:443/oauth/callback/sign-in"


def test_without_an_address_of_its_own_a_personal_server_has_only_paths() -> None:
    assert load().resource_url == "/mcp"


def test_the_client_of_the_issuer_asks_about_opaque_tokens_unless_another_is_named() -> None:
    own = given().introspection_client
    other = given(
        introspection_client_id="asks", introspection_client_secret="its-secret"
    ).introspection_client

    assert own == ("nextcloud-mcp", SecretStr("of-the-issuer"))
    assert other == ("asks", SecretStr("its-secret"))


def test_a_public_client_cannot_ask_about_opaque_tokens() -> None:
    settings = load(**{name: text for name, text in SAFE.items() if name != "oidc_client_secret"})

    assert settings.introspection_client is None


def test_the_mapping_is_a_claim_or_a_question_to_the_person() -> None:
    assert given().mapping_claim is None
    assert given(account_mapping="preferred_username").mapping_claim == "preferred_username"


def test_proxies_are_addresses_and_networks() -> None:
    settings = given(trusted_proxies="10.0.0.7, 10.1.0.0/16 fd00::/8")

    assert settings.proxies == (ip_network("10.0.0.7"), ip_network("10.1.0.0/16"), ip_network("fd00::/8"))


def test_no_secret_is_in_what_the_settings_print() -> None:
    settings = given(
        introspection_client_id="asks",
        introspection_client_secret="of-the-asker",
        database_url="postgresql://mcp:of-the-database@db/mcp",
    )

    for secret in ("of-the-issuer", "of-nextcloud", "of-the-asker", "of-the-database", "a-key"):
        assert secret not in repr(settings)


@pytest.mark.parametrize(
    "field", sorted(SAFE.keys() - {"mode", "nextcloud_host", "trusted_proxies", "oidc_client_secret"})
)
def test_what_many_people_need_is_asked_for_by_name(field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field.upper()} is missing: "):
        load(**{name: text for name, text in SAFE.items() if name != field})


def test_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(mode="oidc")

    first, *others = str(caught.value).splitlines()
    assert first == "7 settings are missing for MODE=oidc:"
    assert [line.partition(":")[0].strip().lower() for line in others] == [
        *(name for name in SAFE if name not in ("mode", "trusted_proxies", "oidc_client_secret"))
    ]
    assert "redirect URI the address of this server and /oauth/callback/sign-in" in str(caught.value)


def test_the_redirect_uri_to_register_has_the_address_that_the_same_error_tells_to_write() -> None:
    sentence = refused(nextcloud_mcp_server_url=f"{MCP}/mcp/", oidc_client_id=None)

    assert f"write {MCP}." in sentence
    assert f"the redirect URI {MCP}/oauth/callback/sign-in, and set its id." in sentence


def test_what_another_grant_provider_does_not_need_is_not_missed() -> None:
    with pytest.raises(ConfigurationError, match=r"^2 settings are missing for MODE=oidc:") as caught:
        load(
            mode="oidc",
            sandbox=True,
            grant_provider="login_flow",
            account_mapping="uid",
            nextcloud_mcp_server_url=MCP,
            token_encryption_keys="a-key",
        )

    assert "OIDC_ISSUER" in str(caught.value)
    assert f"redirect URI {MCP}/oauth/callback/sign-in" in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"nextcloud_mcp_server_url": "http://mcp.example.org"}, "NEXTCLOUD_MCP_SERVER_URL is not encrypted"),
        (
            {"nextcloud_mcp_server_url": "https://cloud.example.org:443/mcp-server"},
            "NEXTCLOUD_MCP_SERVER_URL has the origin of NEXTCLOUD_HOST: give this server a host name of its own",
        ),
        (
            {"nextcloud_host": "http://nextcloud", "nextcloud_public_url": f"{MCP}/nextcloud"},
            "NEXTCLOUD_MCP_SERVER_URL has the origin of NEXTCLOUD_PUBLIC_URL",
        ),
        ({"nextcloud_mcp_server_url": "https://*.example.org"}, "NEXTCLOUD_MCP_SERVER_URL holds a wildcard"),
        (
            {"nextcloud_mcp_server_url": f"{MCP}/mcp/"},
            f"NEXTCLOUD_MCP_SERVER_URL ends in /mcp, which clients get behind it anyway: write {MCP}.",
        ),
        (
            {"oidc_issuer": "https://id.example.org/realms/home/.well-known/openid-configuration"},
            "OIDC_ISSUER is the address of the identity provider's metadata: write https://id.example.org/realms/home,",
        ),
        (
            {"oidc_issuer": "https://id.example.org/.well-known/oauth-authorization-server/realms/home"},
            "write https://id.example.org",
        ),
        ({"oidc_issuer": "http://id.example.org"}, "OIDC_ISSUER is not encrypted (http://)"),
        ({"oidc_issuer": "id.example.org"}, "OIDC_ISSUER lacks its scheme"),
        ({"oidc_audience": "*"}, "OIDC_AUDIENCE must name exact values"),
        ({"oidc_audience": "nextcloud-mcp"}, "OIDC_AUDIENCE is the same as OIDC_CLIENT_ID"),
        ({"oidc_token_types": "*"}, "OIDC_TOKEN_TYPES must name exact values"),
        ({"oidc_token_types": " , "}, "OIDC_TOKEN_TYPES must name exact values"),
        ({"introspection_client_id": "asks"}, "INTROSPECTION_CLIENT_ID needs INTROSPECTION_CLIENT_SECRET"),
        ({"introspection_client_secret": "x"}, "INTROSPECTION_CLIENT_SECRET needs INTROSPECTION_CLIENT_ID"),
        ({"grant_provider": "login_flow"}, "name the claim that holds it in ACCOUNT_MAPPING"),
        ({"grant_provider": "password"}, "Invalid GRANT_PROVIDER"),
        ({"account_mapping": ""}, "Invalid ACCOUNT_MAPPING"),
        ({"token_scopes": "some"}, "Invalid TOKEN_SCOPES"),
        ({"transport": "stdio"}, "--transport stdio is for one user"),
        ({"sandbox": True}, "--sandbox knows no OAuth client"),
        ({"no_local_auth": True}, "--no-local-auth does not say who calls"),
        ({"nextcloud_mcp_secret": "s" * 32}, "NEXTCLOUD_MCP_SECRET does not say who calls"),
        (
            {"nextcloud_username": "alice", "nextcloud_app_password": "pw"},
            "would make all users one Nextcloud user",
        ),
        (
            {"elicitation_callback_url": "https://other.example.org/oauth/callback"},
            "ELICITATION_CALLBACK_URL has another origin than NEXTCLOUD_MCP_SERVER_URL",
        ),
        ({"elicitation_callback_url": f"{MCP}/back"}, "ELICITATION_CALLBACK_URL does not end in /oauth/callback"),
        ({"trusted_proxies": "*"}, "TRUSTED_PROXIES holds '*', which is no address or network"),
        ({"trusted_proxies": "10.0.0.7/24"}, "TRUSTED_PROXIES holds '10.0.0.7/24'"),
        ({"trusted_proxies": "proxy.example.org"}, "TRUSTED_PROXIES holds 'proxy.example.org'"),
        ({"trusted_proxies": "0.0.0.0/0"}, "TRUSTED_PROXIES trusts every address with 0.0.0.0/0"),
        ({"trusted_proxies": "::/0"}, "TRUSTED_PROXIES trusts every address"),
    ],
)  # fmt: skip
def test_what_cannot_be_safe_for_many_people_is_refused_with_the_fix(
    overrides: dict[str, object], sentence: str
) -> None:
    assert sentence in refused(**overrides)


def test_everything_on_this_computer_may_do_without_encryption() -> None:
    settings = given(
        nextcloud_host="http://127.0.0.1:8080",
        nextcloud_mcp_server_url="http://127.0.0.1:8765",
        oidc_issuer="http://localhost:9000",
        trusted_proxies="",
    )

    assert settings.warnings == ()


@pytest.mark.parametrize(
    "overrides",
    [
        {"grant_provider": "oidc_refresh", "nextcloud_resource": "https://cloud.example.org"},
        {"grant_provider": "login_flow", "account_mapping": "preferred_username"},
    ],
)
def test_the_other_ways_to_nextcloud_need_no_client_there(overrides: dict[str, object]) -> None:
    base = {name: text for name, text in SAFE.items() if not name.startswith("nextcloud_oauth_")}

    assert load(**(base | overrides)).warnings == ()


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"nextcloud_host": "http://nextcloud"}, "NEXTCLOUD_HOST is not encrypted"),
        ({"grant_provider": "oidc_refresh"}, "NEXTCLOUD_OAUTH_CLIENT_ID has no effect"),
        ({"nextcloud_resource": "https://cloud"}, "NEXTCLOUD_RESOURCE has no effect"),
        ({"oidc_token_types": "at+jwt,JWT"}, "OIDC_TOKEN_TYPES takes plain JWT too"),
        ({"oidc_identity_claim": "email"}, "OIDC_IDENTITY_CLAIM=email can change hands"),
        ({"oidc_identity_claim": "preferred_username"}, "OIDC_IDENTITY_CLAIM=preferred_username can change hands"),
        ({"trusted_proxies": ""}, "TRUSTED_PROXIES is not set"),
    ],
)  # fmt: skip
def test_what_is_probably_not_meant_for_many_people_is_a_warning(
    overrides: dict[str, object], sentence: str
) -> None:
    found = given(**overrides).warnings

    assert len(found) == 1
    assert sentence in found[0]


def test_what_is_for_many_people_is_pointed_out_to_one_person() -> None:
    found = load(oidc_issuer="https://id.example.org", trusted_proxies="10.0.0.7").warnings

    assert found == (
        "TRUSTED_PROXIES has no effect with MODE=personal: it is for many users (MODE=oidc or MODE=builtin).",
        "OIDC_ISSUER has no effect with MODE=personal: it is for many users (MODE=oidc or MODE=builtin).",
    )


def test_a_draft_needs_both_addresses_and_nothing_else() -> None:
    draft = load_draft(nextcloud_host="https://cloud.example.org", nextcloud_mcp_server_url=MCP)

    assert draft.grant_callback_url == f"{MCP}/oauth/callback/nextcloud"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"nextcloud_mcp_server_url": MCP}, "No Nextcloud is set"),
        ({}, "2 settings are missing:\n  NEXTCLOUD_HOST: .*\n  NEXTCLOUD_MCP_SERVER_URL: "),
        ({"nextcloud_host": "https://cloud.example.org"}, "NEXTCLOUD_MCP_SERVER_URL is missing"),
        ({"nextcloud_host": MCP, "nextcloud_mcp_server_url": MCP}, "has the origin of NEXTCLOUD_HOST"),
    ],
)
def test_a_draft_with_a_wrong_address_is_refused(overrides: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        load_draft(**overrides)

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth import strict_json
from nextcloud_mcp_server.auth.introspection import Introspection
from nextcloud_mcp_server.auth.verifier import Verifier, VerifierConfig
from nextcloud_mcp_server.errors import IssuerUnavailable, TokenRefused
from nextcloud_mcp_server.storage.records import Principal
from tests.issuer_fixtures import (
    ISSUER,
    NOW,
    RESOURCE,
    IdentityProvider,
    Time,
    claims,
    public_jwk,
    rsa_key,
    signed,
    silent,
)

OTHER = "https://other.test"


def verifier(
    *providers: IdentityProvider,
    time: Time | None = None,
    opaque: bool = False,
    **config: Any,  # noqa: ANN401 - fields of VerifierConfig
) -> Verifier:
    time = time or Time()
    given = providers or (IdentityProvider(),)
    asking = Introspection(
        given[0].discovery(time), given[0].outgoing(), client=("mcp", SecretStr("secret")), monotonic=time
    )
    return Verifier(
        VerifierConfig(audience=RESOURCE, **config),
        {provider.issuer: provider.key_set(time) for provider in given},
        introspection=asking if opaque else None,
        clock=lambda: datetime.fromtimestamp(NOW, UTC),
    )


async def test_a_token_says_who_calls_through_what_and_what_is_allowed() -> None:
    bearer = await verifier().verify(signed(claims(scope="notes:read openid")))

    assert bearer.principal == Principal(ISSUER, "alice")
    assert bearer.client_id == "claude"
    assert bearer.scopes == {"notes:read"}
    assert bearer.expires_at == NOW + 300
    assert bearer.claims["aud"] == RESOURCE
    assert "notes" not in repr(bearer).partition("claims")[2]


async def test_scopes_limit_nothing_where_the_operator_says_so() -> None:
    assert (await verifier(token_scopes="ignore").verify(signed(claims(scope="")))).scopes is None


async def test_a_token_that_names_scopes_is_held_to_them_though_the_operator_needs_none() -> None:
    bearer = await verifier(token_scopes="ignore").verify(signed(claims(scope="openid notes:read")))

    assert bearer.scopes == {"notes:read"}


async def test_a_missing_scope_allows_nothing_where_scopes_are_required() -> None:
    assert (await verifier().verify(signed(claims(scope=None)))).scopes == frozenset()


async def test_a_scope_prefix_is_cut_off() -> None:
    bearer = await verifier(scope_prefix="api://mcp/").verify(signed(claims(scope="api://mcp/notes:read")))

    assert bearer.scopes == {"notes:read"}


@pytest.mark.parametrize(
    ("changes", "client"),
    [
        ({"client_id": "a", "azp": "b"}, "a"),
        ({"client_id": None, "azp": "b"}, "b"),
    ],
)
async def test_the_client_is_named_by_either_claim(changes: dict[str, object], client: str) -> None:
    assert (await verifier().verify(signed(claims(**changes)))).client_id == client


@pytest.mark.parametrize(
    "changes",
    [
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": ["alice"]},
        {"sub": "a" * 256},
        {"sub": "alice\nroot"},
        {"client_id": None},
        {"client_id": ""},
        {"client_id": None, "azp": 7},
        {"client_id": 7, "azp": "b"},
    ],
)
async def test_a_token_without_user_or_client_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(TokenRefused, match="whose it is"):
        await verifier().verify(signed(claims(**changes)))


async def test_a_person_can_be_known_by_another_claim() -> None:
    checking = verifier(identity_claim="oid")

    bearer = await checking.verify(signed(claims(oid="object-1")))

    assert bearer.principal.subject == "object-1"
    with pytest.raises(TokenRefused):
        await checking.verify(signed(claims()))
    with pytest.raises(TokenRefused):
        await checking.verify(signed(claims(oid="object-1", sub=None)))


@pytest.mark.parametrize("said", [{}, {"email_verified": False}, {"email_verified": "false"}])
async def test_an_unverified_address_identifies_no_user(said: dict[str, object]) -> None:
    """Where users type their address themselves, Mallory would be Alice by typing hers."""
    checking = verifier(identity_claim="email")

    bearer = await checking.verify(signed(claims(email="alice@x.test", email_verified=True)))

    assert bearer.principal.subject == "alice@x.test"
    with pytest.raises(TokenRefused, match="not verified"):
        await checking.verify(signed(claims(email="alice@x.test", **said)))


async def test_the_same_subject_of_another_issuer_is_another_person() -> None:
    other = IdentityProvider(OTHER, keys=[public_jwk(rsa_key("other"), kid="one")])
    checking = verifier(IdentityProvider(), other)

    first = await checking.verify(signed(claims()))
    second = await checking.verify(signed(claims(iss=OTHER), rsa_key("other")))

    assert first.principal != second.principal
    assert second.principal == Principal(OTHER, "alice")


async def test_an_issuer_cannot_sign_for_another_one() -> None:
    other = IdentityProvider(OTHER, keys=[public_jwk(rsa_key("other"), kid="one")])

    with pytest.raises(TokenRefused, match="signature"):
        await verifier(IdentityProvider(), other).verify(signed(claims(), rsa_key("other")))


@pytest.mark.parametrize("iss", [OTHER, f"{ISSUER}/", None])
async def test_a_token_of_an_unknown_issuer_is_refused_unasked(iss: str | None) -> None:
    provider = IdentityProvider()

    with pytest.raises(TokenRefused, match="another issuer"):
        await verifier(provider).verify(signed(claims(iss=iss)))
    assert provider.asked == []


@pytest.mark.parametrize("typ", ["JWT", "jwt", None, "at+jwt"])
async def test_plain_jwts_are_taken_where_the_operator_says_so(typ: str | None) -> None:
    token = signed(claims(), header={"typ": typ})

    assert (await verifier(typ=frozenset({"at+JWT", "JWT"})).verify(token)).client_id == "claude"


@pytest.mark.parametrize(
    "marks",
    [
        {"nonce": "n"},
        {"at_hash": "h"},
        {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}},
        {"typ": "ID"},
        {"typ": "Refresh"},
        {"typ": "Offline"},
        {"typ": 7},
    ],
)
async def test_what_else_an_issuer_signs_is_refused_even_among_plain_jwts(marks: dict[str, object]) -> None:
    token = signed(claims(**marks), header={"typ": "JWT"})

    with pytest.raises(TokenRefused, match="not an access token"):
        await verifier(typ=frozenset({"jwt"})).verify(token)


async def test_an_access_token_of_an_old_keycloak_may_hold_a_nonce() -> None:
    token = signed(claims(typ="Bearer", nonce="n"), header={"typ": "JWT"})

    assert (await verifier(typ=frozenset({"jwt"})).verify(token)).client_id == "claude"


async def test_an_opaque_token_is_asked_about() -> None:
    provider = IdentityProvider(tokens={"opaque": {"active": True, **claims()}})

    bearer = await verifier(provider, opaque=True).verify("opaque")

    assert bearer.principal == Principal(ISSUER, "alice")
    assert bearer.scopes == {"notes:read"}
    assert bearer.introspected


async def test_a_signed_token_without_a_time_is_accepted_and_the_issuer_not_asked() -> None:
    """RFC 7519 §4.1.6 makes `iat` optional; a logout ends such a token."""
    provider = IdentityProvider()

    bearer = await verifier(provider, opaque=True).verify(signed(claims(iat=None)))

    assert not bearer.introspected
    assert provider.count("/introspect") == 0


async def test_an_opaque_token_need_not_name_its_issuer_nor_its_end() -> None:
    said = {"active": True, **claims(iss=None, exp=None)}
    provider = IdentityProvider(tokens={"opaque": said})

    bearer = await verifier(provider, opaque=True).verify("opaque")

    assert bearer.principal.issuer == ISSUER
    assert bearer.expires_at == NOW + 60


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": OTHER},
        {"aud": None},
        {"aud": "other"},
        {"exp": NOW - 30},
        {"exp": "soon"},
        {"nbf": NOW + 31},
        {"sub": None},
        {"client_id": None},
        {"typ": "Refresh"},
    ],
)
async def test_what_the_issuer_says_of_an_opaque_token_is_checked(changes: dict[str, object]) -> None:
    provider = IdentityProvider(tokens={"opaque": {"active": True, **claims(**changes)}})

    with pytest.raises(TokenRefused):
        await verifier(provider, opaque=True).verify("opaque")


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "a.b.c.d.e", ""])
async def test_opaque_tokens_are_refused_without_introspection(token: str) -> None:
    with pytest.raises(TokenRefused):
        await verifier().verify(token)


async def test_an_encrypted_token_is_not_asked_about() -> None:
    provider = IdentityProvider()

    with pytest.raises(TokenRefused):
        await verifier(provider, opaque=True).verify("a.b.c.d.e")
    assert provider.asked == []


async def test_a_signed_token_that_is_refused_is_not_asked_about() -> None:
    provider = IdentityProvider()

    with pytest.raises(TokenRefused):
        await verifier(provider, opaque=True).verify(signed(claims(), rsa_key("other")))
    assert provider.count("/introspect") == 0


async def test_no_token_is_accepted_while_the_keys_are_unknown() -> None:
    provider = IdentityProvider(instead={"/jwks": silent})

    with pytest.raises(IssuerUnavailable):
        await verifier(provider).verify(signed(claims()))


async def test_the_header_and_the_claims_of_a_token_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    read = strict_json.read

    def counted(text: bytes) -> object:
        parsed.append(text)
        return read(text)

    checking = verifier()
    await checking.verify(signed(claims()))
    monkeypatch.setattr(strict_json, "read", counted)

    await checking.verify(signed(claims()))

    assert len(parsed) == len(set(parsed)) == 2

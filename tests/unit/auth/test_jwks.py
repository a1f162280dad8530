import logging

import anyio
import pytest
from jwt.algorithms import RSAAlgorithm

from nextcloud_mcp_server.auth.jwks import ALGORITHMS, KeySet
from nextcloud_mcp_server.errors import IssuerUnavailable, TokenRefused
from tests.issuer_fixtures import (
    IdentityProvider,
    Time,
    answering,
    private_key,
    public_jwk,
    rsa_key,
    silent,
)

KINDS = {
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
    "ES256": "P-256",
    "ES384": "P-384",
    "EdDSA": "Ed25519",
}


@pytest.fixture
def provider() -> IdentityProvider:
    return IdentityProvider()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def keys(provider: IdentityProvider, time: Time) -> KeySet:
    return provider.key_set(time)


@pytest.mark.parametrize("alg", sorted(ALGORITHMS))
async def test_each_algorithm_gets_the_key_that_fits(
    alg: str, provider: IdentityProvider, keys: KeySet
) -> None:
    provider.keys = [public_jwk(private_key(kind), kid=kind) for kind in sorted(set(KINDS.values()))]

    key = await keys.key(KINDS[alg], alg)

    assert key.algorithm_name == alg
    assert await keys.key(None, alg) is not None
    assert await keys.key(KINDS[alg], alg) is key


@pytest.mark.parametrize("kid", ["two", "", "../../etc/passwd", "' OR 1=1 --", "one\x00"])
async def test_an_unknown_key_id_is_refused(kid: str, keys: KeySet) -> None:
    with pytest.raises(TokenRefused, match="no key"):
        await keys.key(kid, "RS256")


@pytest.mark.parametrize("alg", ["ES256", "RS384", "HS256", "none"])
async def test_a_key_is_used_for_its_own_algorithm_only(alg: str, keys: KeySet) -> None:
    with pytest.raises(TokenRefused):
        await keys.key("one", alg)


@pytest.mark.parametrize(
    "members",
    [
        {"use": "enc"},
        {"key_ops": ["encrypt"]},
        {"key_ops": "verify"},
        {"d": "AQAB"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"k": "c2VjcmV0"},
        {"n": "!!"},
        {"n": "AQAB"},
        {"n": None},
        {"alg": "RSA-OAEP"},
    ],
)
async def test_a_key_that_is_not_for_this_is_left_out(
    members: dict[str, object], provider: IdentityProvider, keys: KeySet
) -> None:
    provider.keys = ["no key", public_jwk(rsa_key(), kid="one") | members]

    with pytest.raises(TokenRefused):
        await keys.key("one", "RS256")


async def test_a_private_key_in_the_list_is_left_out(provider: IdentityProvider, keys: KeySet) -> None:
    whole = RSAAlgorithm.to_jwk(rsa_key(), as_dict=True)
    provider.keys = [{**whole, "kid": "one", "alg": "RS256", "use": "sig", "key_ops": ["sign", "verify"]}]

    with pytest.raises(TokenRefused, match="no key"):
        await keys.key("one", "RS256")


async def test_a_short_key_is_left_out_and_the_log_says_so(
    provider: IdentityProvider, keys: KeySet, caplog: pytest.LogCaptureFixture
) -> None:
    provider.keys = [public_jwk(rsa_key("short", 1024), kid="one")]

    with pytest.raises(TokenRefused), caplog.at_level(logging.WARNING):
        await keys.key("one", "RS256")

    assert "1024 bits" in caplog.text


async def test_without_an_id_there_must_be_one_key_alone(provider: IdentityProvider, keys: KeySet) -> None:
    provider.keys = [public_jwk(rsa_key(), kid="one"), public_jwk(rsa_key("other"), kid="two")]

    with pytest.raises(TokenRefused):
        await keys.key(None, "RS256")
    assert provider.count("/jwks") == 1


async def test_two_keys_of_one_name_are_neither_used(provider: IdentityProvider, keys: KeySet) -> None:
    provider.keys = [public_jwk(rsa_key(), kid="one"), public_jwk(rsa_key("other"), kid="one")]

    with pytest.raises(TokenRefused):
        await keys.key("one", "RS256")


async def test_a_new_key_is_found_and_the_old_one_forgotten(provider: IdentityProvider, keys: KeySet) -> None:
    await keys.key("one", "RS256")
    provider.keys = [public_jwk(rsa_key("other"), kid="two")]

    await keys.key("two", "RS256")

    with pytest.raises(TokenRefused):
        await keys.key("one", "RS256")


async def test_a_flood_of_unknown_ids_asks_once_in_thirty_seconds(
    provider: IdentityProvider, keys: KeySet, time: Time
) -> None:
    await keys.key("one", "RS256")

    async def ask(number: int) -> None:
        with pytest.raises(TokenRefused):
            await keys.key(f"unknown-{number}", "RS256")

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(ask, number)
    asked = provider.count("/jwks")
    time.now += 30
    await ask(201)

    assert asked == 2
    assert provider.count("/jwks") == 3


async def test_known_keys_serve_while_the_issuer_is_down(
    provider: IdentityProvider, keys: KeySet, time: Time
) -> None:
    await keys.key("one", "RS256")
    provider.instead = {"/jwks": silent, "/.well-known/openid-configuration": silent}
    time.now += 86_000

    assert await keys.key("one", "RS256") is not None


async def test_keys_are_read_anew_after_ten_minutes(
    provider: IdentityProvider, keys: KeySet, time: Time
) -> None:
    await keys.key("one", "RS256")
    provider.keys = []
    time.now += 600

    with pytest.raises(TokenRefused):
        await keys.key("one", "RS256")


@pytest.mark.parametrize(
    "answer",
    [
        silent,
        answering(404, json={"keys": []}),
        answering(500),
        answering(200, content=b"<html>"),
        answering(200, json=[]),
        answering(200, json={"keys": {}}),
        answering(200, content=b'{"keys": [' + b" " * 300_000 + b"]}"),
        answering(302, headers={"Location": "https://elsewhere.test/jwks"}),
    ],
)
async def test_keys_that_cannot_be_fetched_are_no_reason_to_refuse_a_token(
    answer: object, provider: IdentityProvider, keys: KeySet
) -> None:
    provider.instead = {"/jwks": answer}  # type: ignore[dict-item]

    with pytest.raises(IssuerUnavailable):
        await keys.key("one", "RS256")


async def test_a_set_without_end_is_cut(
    provider: IdentityProvider, keys: KeySet, caplog: pytest.LogCaptureFixture
) -> None:
    provider.keys = [public_jwk(private_key("Ed25519"), kid=f"key-{n}") for n in range(101)]

    await keys.key("key-99", "EdDSA")

    with pytest.raises(TokenRefused):
        await keys.key("key-100", "EdDSA")
    assert "lists 101 keys" in caplog.text

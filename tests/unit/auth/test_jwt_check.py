import base64
import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt import PyJWK

from nextcloud_mcp_server.auth.jwks import ALGORITHMS
from nextcloud_mcp_server.auth.jwt_check import SignedToken, decode, read_header, signed_token
from nextcloud_mcp_server.errors import TokenRefused
from tests.issuer_fixtures import (
    ISSUER,
    NOW,
    RESOURCE,
    claims,
    private_key,
    public_jwk,
    raw_token,
    rsa_key,
    signed,
)

KEY = PyJWK.from_dict(public_jwk(rsa_key(), kid="one"), "RS256")
KINDS = {"RS": "RSA", "PS": "RSA", "ES256": "P-256", "ES384": "P-384", "EdDSA": "Ed25519"}


def check(token: str, key: PyJWK = KEY, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - options of decode
    options: dict[str, Any] = {"issuer": ISSUER, "audience": RESOURCE, "typ": {"at+jwt"}, "now": NOW}
    return dict(decode(signed_token(token), key, **(options | changes)))


@pytest.mark.parametrize("alg", sorted(ALGORITHMS))
def test_a_token_of_each_accepted_algorithm_is_read(alg: str) -> None:
    private = private_key(KINDS.get(alg) or KINDS[alg[:2]])
    key = PyJWK.from_dict(public_jwk(private), alg)

    assert check(signed(claims(), private, alg=alg), key) == claims()


@pytest.mark.parametrize("typ", ["at+jwt", "at+JWT", "application/at+jwt", "APPLICATION/AT+JWT"])
def test_the_type_may_be_written_in_every_way(typ: str) -> None:
    assert check(signed(claims(), header={"typ": typ}))["sub"] == "alice"


@pytest.mark.parametrize("kid", [7, "", "k" * 257, None, ["one"], {"one": 1}])
def test_a_key_id_that_is_none_is_refused_though_the_signature_is_right(kid: object) -> None:
    unsigned = raw_token({"alg": "RS256", "kid": kid, "typ": "at+jwt"}, claims(), "").removesuffix(".")
    signature = rsa_key().sign(unsigned.encode(), PKCS1v15(), SHA256())
    token = f"{unsigned}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"

    with pytest.raises(TokenRefused, match="key id"):
        check(token)


@pytest.mark.parametrize("typ", ["JWT", "", None, "logout+jwt", "at+jwt2"])
def test_another_type_is_refused(typ: str | None) -> None:
    with pytest.raises(TokenRefused, match="of a type"):
        check(signed(claims(), header={"typ": typ}))


def test_the_type_is_not_looked_at_where_none_is_asked_for() -> None:
    assert check(signed(claims(), header={"typ": None}), typ=None)["sub"] == "alice"


def by_hand(header: Mapping[str, object], payload: Mapping[str, object], secret: bytes) -> str:
    token = raw_token(header, payload, "")
    signature = hmac.digest(secret, token.rstrip(".").encode(), hashlib.sha256)
    return token + base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


PUBLIC_PEM = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
HEADER = {"alg": "RS256", "kid": "one", "typ": "at+jwt"}
SIGNED = signed(claims())
MADE_UP = {
    "empty": "",
    "one part": "abc",
    "two parts": "a.b",
    "five parts, as JWE has": f"{SIGNED}.a.b",
    "no base64": "!!!.!!!.!!!",
    "header is no JSON": raw_token(b"{", claims()),
    "header is a list": raw_token(b"[]", claims()),
    "header has a key twice": raw_token(b'{"alg":"RS256","alg":"none","typ":"at+jwt"}', claims()),
    "alg none": raw_token(HEADER | {"alg": "none"}, claims(), ""),
    "alg None": raw_token(HEADER | {"alg": "None"}, claims(), ""),
    "alg missing": raw_token({"typ": "at+jwt"}, claims()),
    "alg a list": raw_token(HEADER | {"alg": ["RS256"]}, claims()),
    "alg unknown": raw_token(HEADER | {"alg": "RS1"}, claims()),
    "alg for encryption": raw_token(HEADER | {"alg": "RSA-OAEP", "enc": "A128GCM"}, claims()),
    "HS256 with the public key": by_hand(HEADER | {"alg": "HS256"}, claims(), PUBLIC_PEM),
    "kid a number": raw_token(HEADER | {"kid": 7}, claims()),
    "kid empty": raw_token(HEADER | {"kid": ""}, claims()),
    "kid huge": raw_token(HEADER | {"kid": "k" * 300}, claims()),
    "typ a number": raw_token(HEADER | {"typ": 7}, claims()),
    "signature of another": signed(claims(), rsa_key("other")),
    "signature missing": SIGNED.rpartition(".")[0] + ".",
    "signature cut": SIGNED[:-4],
    "claims changed": ".".join(
        [SIGNED.split(".")[0], raw_token({}, claims(sub="bob")).split(".")[1], SIGNED.split(".")[2]]
    ),
    "key confusion": raw_token(HEADER | {"alg": "ES256"}, claims()),
    "not ASCII": SIGNED + "é",
    "with space": SIGNED.replace(".", ". ", 1),
    "huge": signed(claims(filler="x" * 20_000)),
    "claims a list": signed(claims()).split(".")[0] + ".W10." + SIGNED.split(".")[2],
}


@pytest.mark.parametrize("token", MADE_UP.values(), ids=MADE_UP.keys())
def test_a_made_up_token_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused):
        check(token)


@pytest.mark.parametrize(
    "header",
    [
        {"jku": "https://evil.test/jwks"},
        {"x5u": "https://evil.test/cert"},
        {"jwk": public_jwk(rsa_key("other"))},
        {"crit": ["exp"]},
        {"crit": []},
        {"zip": "DEF"},
        {"b64": True},
    ],
)
def test_a_header_that_brings_its_own_rules_is_refused_though_the_signature_is_right(
    header: dict[str, object],
) -> None:
    token = signed(claims(), header=header) if "b64" not in header else raw_token(HEADER | header, claims())

    with pytest.raises(TokenRefused, match="of its own"):
        check(token)


CLAIMS: dict[str, tuple[dict[str, object], bool]] = {
    "as it should be": ({}, True),
    "aud a list with us": ({"aud": [RESOURCE]}, True),
    "aud with Nextcloud beside us": ({"aud": ["https://cloud.test", RESOURCE]}, True),
    "aud missing": ({"aud": None}, False),
    "aud empty": ({"aud": []}, False),
    "aud other": ({"aud": "https://cloud.test"}, False),
    "aud list without us": ({"aud": ["https://cloud.test", "account"]}, False),
    "aud the beginning of ours": ({"aud": RESOURCE[:-1]}, False),
    "aud ours and more": ({"aud": f"{RESOURCE}/x"}, False),
    "aud ours with a slash": ({"aud": f"{RESOURCE}/"}, True),
    "aud in other case": ({"aud": RESOURCE.upper()}, False),
    "aud an object": ({"aud": {RESOURCE: 1}}, False),
    "aud with a number": ({"aud": [RESOURCE, 7]}, False),
    "aud nested": ({"aud": [[RESOURCE]]}, False),
    "iss other": ({"iss": "https://evil.test"}, False),
    "iss with slash": ({"iss": f"{ISSUER}/"}, False),
    "iss in other case": ({"iss": ISSUER.upper()}, False),
    "iss missing": ({"iss": None}, False),
    "exp within the leeway": ({"exp": NOW - 29}, True),
    "exp past the leeway": ({"exp": NOW - 30}, False),
    "exp long ago": ({"exp": 0}, False),
    "exp missing": ({"exp": None}, False),
    "exp text": ({"exp": str(NOW + 300)}, False),
    "exp true": ({"exp": True}, False),
    "exp with fraction": ({"exp": NOW + 0.5}, True),
    "exp huge": ({"exp": 10**400}, False),
    "nbf past": ({"nbf": NOW - 1}, True),
    "nbf true": ({"nbf": True}, False),
    "iat true": ({"iat": True}, False),
    "nbf within the leeway": ({"nbf": NOW + 30}, True),
    "nbf in the future": ({"nbf": NOW + 31}, False),
    "nbf text": ({"nbf": "0"}, False),
    "iat missing": ({"iat": None}, True),
    "iat within the leeway": ({"iat": NOW + 30}, True),
    "iat in the future": ({"iat": NOW + 31}, False),
    "iat a list": ({"iat": [NOW]}, False),
}


@pytest.mark.parametrize(("changes", "accepted"), CLAIMS.values(), ids=CLAIMS.keys())
def test_the_claims_decide(changes: dict[str, object], *, accepted: bool) -> None:
    token = signed(claims(**changes))

    if accepted:
        assert check(token)["sub"] == "alice"
    else:
        with pytest.raises(TokenRefused):
            check(token)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_time_that_is_no_number_is_refused(value: float) -> None:
    token = signed(claims(exp=value))

    with pytest.raises(TokenRefused):
        check(token)


def test_the_operator_can_accept_fewer_algorithms_but_not_more() -> None:
    token = signed(claims())

    with pytest.raises(TokenRefused, match="algorithm"):
        read_header(signed_token(token), algorithms={"ES256"})
    with pytest.raises(TokenRefused, match="algorithm"):
        read_header(
            signed_token(by_hand(HEADER | {"alg": "HS256"}, claims(), b"secret")), algorithms={"HS256"}
        )


def test_a_token_for_another_algorithm_than_the_key_is_refused() -> None:
    key = PyJWK.from_dict(public_jwk(rsa_key()), "PS256")

    with pytest.raises(TokenRefused, match="go with its key"):
        check(signed(claims()), key)


def test_claims_can_be_read_before_the_signature_is_known() -> None:
    assert signed_token(raw_token(HEADER, claims())).claims == json.loads(json.dumps(claims()))
    with pytest.raises(TokenRefused):
        _ = signed_token(raw_token(HEADER, b"[]")).claims


@pytest.mark.parametrize(
    ("token", "signed_"), [(SIGNED, True), ("opaque", False), ("a.b.c", False), ("é.b.c", False)]
)
def test_an_opaque_token_is_told_from_a_signed_one(token: str, *, signed_: bool) -> None:
    assert (SignedToken.parse(token) is not None) is signed_

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.callback import Params, check_issuer, code_of, only_value
from nextcloud_mcp_server.errors import SignInRefused

ISSUER = "https://id.test"
CODE = "a-code-of-some-length"


def test_a_code_is_read() -> None:
    assert code_of({"code": [CODE], "state": ["s"], "session_state": ["x"]}) == SecretStr(CODE)


def test_a_cancelled_sign_in_has_no_code() -> None:
    assert code_of({"error": ["access_denied"], "error_description": ["<script>"]}) is None


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"code": [CODE, CODE]},
        {"code": [CODE], "error": ["access_denied"]},
        {"code": [CODE], "scope": ["a", "b"]},
        {"error": ["access_denied", "server_error"]},
        {"code": [""]},
        {"code": ["two words here"]},
    ],
    ids=["nothing", "code twice", "code and error", "another twice", "error twice", "empty", "no code"],
)
def test_an_odd_answer_is_refused(params: Params) -> None:
    with pytest.raises(SignInRefused, match="malformed"):
        code_of(params)


def test_what_the_provider_says_about_an_error_is_not_repeated() -> None:
    with pytest.raises(SignInRefused) as caught:
        code_of({"error": ["evil"], "error_description": ["<script>alert(1)</script>"]})

    assert "evil" not in str(caught.value)
    assert "script" not in str(caught.value)


@pytest.mark.parametrize(
    ("params", "required"), [({"iss": [ISSUER]}, True), ({"iss": [ISSUER]}, False), ({}, False)]
)
def test_the_issuer_that_was_asked_may_answer(params: Params, *, required: bool) -> None:
    check_issuer(params, ISSUER, required=required)


@pytest.mark.parametrize(
    ("params", "issuer", "required"),
    [
        ({}, ISSUER, True),
        ({"iss": ["https://evil.test"]}, ISSUER, True),
        ({"iss": ["https://evil.test"]}, ISSUER, False),
        ({"iss": [f"{ISSUER}/"]}, ISSUER, True),
        ({"iss": ["https://ID.test"]}, ISSUER, True),
        ({"iss": [ISSUER, ISSUER]}, ISSUER, True),
        ({"iss": [ISSUER]}, None, False),
    ],
    ids=["missing", "wrong", "wrong, not advertised", "slash", "case", "twice", "of one that sends none"],
)
def test_another_issuer_is_refused(params: Params, issuer: str | None, *, required: bool) -> None:
    with pytest.raises(SignInRefused):
        check_issuer(params, issuer, required=required)


def test_a_parameter_that_is_not_there_is_none() -> None:
    assert only_value({}, "state") is None

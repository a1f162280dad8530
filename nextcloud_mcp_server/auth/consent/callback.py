"""Checks the parameters of a callback; nothing here sends a request.

Anyone can write a callback's URL, so no page repeats any part of it.
"""

from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from nextcloud_mcp_server.auth.oauth_client import has_shape_of_code
from nextcloud_mcp_server.errors import SignInRefused

#: Query parameters, each with all its values.
Params = Mapping[str, Sequence[str]]

_ODD = "The answer to the sign-in is malformed. Start again."


def only_value(params: Params, name: str) -> str | None:
    """Return the one value of a parameter; None if it is absent.

    Raises:
        SignInRefused: It is there twice, so two parsers could read two values (RFC 6749 §3.1).
    """
    values = params.get(name, ())
    if len(values) > 1:
        raise SignInRefused(_ODD)
    return values[0] if values else None


def check_issuer(params: Params, issuer: str | None, *, required: bool) -> None:
    """Compare the `iss` of a callback with the issuer that was asked, byte by byte (RFC 9207 §2.4).

    `issuer` is None for a provider that sends no `iss`: then any `iss` is refused.

    Raises:
        SignInRefused: `iss` names another issuer, or is missing although it is `required`.
    """
    named = only_value(params, "iss")
    if (named is None and required) or (named is not None and named != issuer):
        raise SignInRefused("The answer to the sign-in came from another issuer. Start again.")


def code_of(params: Params) -> SecretStr | None:
    """Return the code of a callback whose state was checked; None when the user cancelled.

    Raises:
        SignInRefused: A parameter is there twice, not exactly one of code and error is there, or the code is malformed.
    """
    for name in params:
        only_value(params, name)
    code, error = only_value(params, "code"), only_value(params, "error")
    if (code is None) == (error is None):
        raise SignInRefused(_ODD)
    if error == "access_denied":
        return None
    if error is not None:
        # The error text is not shown: anyone could have written it into the URL.
        raise SignInRefused("The sign-in was refused there. Start again; if it stays so, tell the operator.")
    if code is None or not has_shape_of_code(code):
        raise SignInRefused(_ODD)
    return SecretStr(code)

"""How a browser comes back from a sign-in elsewhere; everything here happens before any request.

A callback's address can be written by anyone, so nothing of it is repeated on a page.
"""

from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from nextcloud_mcp_server.auth.oauth_client import has_shape_of_code
from nextcloud_mcp_server.errors import SignInRefused

#: Query parameters with every value.
Params = Mapping[str, Sequence[str]]

_ODD = "The sign-in came back in a form that is not trusted. Start again."


def only_value(params: Params, name: str) -> str | None:
    """Read a parameter that is there once; None where there is none.

    Raises:
        SignInRefused: It is there twice, so two readers could see two values (RFC 6749 §3.1).
    """
    values = params.get(name, ())
    if len(values) > 1:
        raise SignInRefused(_ODD)
    return values[0] if values else None


def check_issuer(params: Params, issuer: str | None, *, required: bool) -> None:
    """Compare who says that they answered with whom was asked, character by character (RFC 9207 §2.4).

    `issuer` is None for a provider that never says it: then no one else may say it either.

    Raises:
        SignInRefused: It is another user, or not said though it always is.
    """
    named = only_value(params, "iss")
    if (named is None and required) or (named is not None and named != issuer):
        raise SignInRefused("The sign-in came back from somewhere else than where it began. Start again.")


def code_of(params: Params) -> SecretStr | None:
    """Read the code of a callback whose state was checked; None when the user cancelled.

    Raises:
        SignInRefused: Something is there twice, there is a code and an error, or the code cannot be one.
    """
    for name in params:
        only_value(params, name)
    code, error = only_value(params, "code"), only_value(params, "error")
    if (code is None) == (error is None):
        raise SignInRefused(_ODD)
    if error == "access_denied":
        return None
    if error is not None:
        # What the provider says about it is not shown: its words may be of anyone who wrote the address.
        raise SignInRefused("The sign-in was refused there. Start again; if it stays so, tell the operator.")
    if code is None or not has_shape_of_code(code):
        raise SignInRefused(_ODD)
    return SecretStr(code)

"""Ends authorization codes that no sign-in will use, because they reached the wrong browser.

A code in the address bar of the wrong browser still opens an account: it can be copied from there, or read in a
proxy's log. So it is marked as spent at once; this server then never exchanges it for a user. If the `state`
beside it was made here, the code is also exchanged, and its tokens are revoked.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.consent.code_exchange import CodeExchange, uninterrupted
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.oauth_client import has_shape_of_code
from nextcloud_mcp_server.errors import GrantRefused, MalformedCode, NextcloudError, Throttled
from nextcloud_mcp_server.storage.records import Principal

if TYPE_CHECKING:
    # The type only: importing SQLAlchemy is left to the first call that needs it.
    from nextcloud_mcp_server.storage.spent_codes import SpentCodeRepository

#: Used in place of a browser's value: all browsers share the failures that one browser may cause.
_ANY_BROWSER: Final = ""
#: A callback has one code. An address with many is forged, and must not fill the database.
_MOST_REMEMBERED: Final = 100


def codes_in(params: Params) -> Sequence[str]:
    """Return the codes of a callback that are worth storing as spent."""
    return [code for code in params.get("code", ()) if has_shape_of_code(code)][:_MOST_REMEMBERED]


@asynccontextmanager
async def spent_unless_used(spent_codes: "SpentCodeRepository", params: Params) -> AsyncGenerator[None]:
    """Mark the codes of a callback as spent if the block raises, whatever it raises.

    The value of `state` does not matter: the sender of a link to the upstream chooses its parameters, and with
    them the `state` of the callback. So a code beside an unknown `state` may be valid.
    """
    try:
        yield
    except Exception:  # raised again: the codes are spent after every failure
        await spent_codes.spend(codes_in(params))
        raise


async def end_orphaned_code(
    code_exchange: CodeExchange,
    exchange_limiter: ExchangeLimiter,
    owner: Principal,
    params: Params,
    *,
    verifier: SecretStr | None = None,
    nonce: SecretStr | None = None,
) -> None:
    """Exchange the code of a callback and revoke its tokens. The code must be marked as spent already.

    Nothing is sent for a callback with several codes, nor when too many codes were refused lately: the upstream
    counts refused codes against this server's address. `owner` is the principal under which the tokens are put
    into the outbox.
    """
    codes = codes_in(params)
    if len(codes) != 1:
        return
    # One at a time, so that junk codes sent at once do not get past the allowance.
    async with exchange_limiter.orphans:
        try:
            await exchange_limiter.check(None, _ANY_BROWSER)
        except Throttled:
            return
        with uninterrupted():
            try:
                given = await code_exchange.exchange(
                    owner, code=SecretStr(codes[0]), verifier=verifier, nonce=nonce
                )
            except MalformedCode:
                return
            except GrantRefused:
                await exchange_limiter.failed(owner, _ANY_BROWSER)
            except NextcloudError:
                # `CodeExchange` revoked the tokens, or there were none. The code stays spent in either case.
                return
            else:
                await code_exchange.discard(owner, given.tokens)

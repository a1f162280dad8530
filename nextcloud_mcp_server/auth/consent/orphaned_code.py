"""Ends authorization codes that no sign-in will use, because they came back in the wrong place.

A code in the address bar of the wrong browser still opens an account: it can be copied from there, or read in a
proxy's log. So it is spent at once, which means that this server exchanges it for no one. Where the `state` that came
with it is one of ours, the code is also exchanged, and what it opened is revoked.
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

#: In place of a browser's value: all of them share the failures that one browser may cause.
_ANY_BROWSER: Final = ""
#: A callback has one code. An address with many is forged, and must not fill the database.
_MOST_REMEMBERED: Final = 100


def codes_in(params: Params) -> Sequence[str]:
    """List the codes of a callback that are worth remembering."""
    return [code for code in params.get("code", ()) if has_shape_of_code(code)][:_MOST_REMEMBERED]


@asynccontextmanager
async def spent_unless_used(spent_codes: "SpentCodeRepository", params: Params) -> AsyncGenerator[None]:
    """Spend the codes of a callback that fails inside, however it fails and whatever its `state` is.

    Who sends a user to the upstream writes the address there, and with it the `state` that comes back. So a code
    beside an unknown `state` may be as good as any.
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
    """Exchange the code of a callback and have what it opened revoked. The code must be spent already.

    Nothing is sent for a callback with several codes, nor when too many codes were refused lately: the
    upstream counts refused codes against this server's address. `owner` is whose the tokens are said to be in
    the outbox.
    """
    codes = codes_in(params)
    if len(codes) != 1:
        return
    # One at a time, so that junk codes sent at once do not get past the budget.
    async with exchange_limiter.orphans:
        try:
            await exchange_limiter.check(None, _ANY_BROWSER)
        except Throttled:
            return
        with uninterrupted():
            try:
                given = await code_exchange.exchange_orphaned(
                    owner, code=SecretStr(codes[0]), verifier=verifier, nonce=nonce
                )
            except MalformedCode:
                return
            except GrantRefused:
                await exchange_limiter.failed(owner, _ANY_BROWSER)
            except NextcloudError:
                # `CodeExchange` revoked what was given, or nothing was. The code stays spent in either case.
                return
            else:
                await code_exchange.give_back(owner, given.tokens)

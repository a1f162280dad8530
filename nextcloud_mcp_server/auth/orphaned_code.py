"""Ends authorization codes that no sign-in will use, because they came back in the wrong place.

A code in the address bar of the wrong browser still opens an account: it can be copied from there, or read in a
proxy's log. So it is exchanged at once, and what it opened is revoked. Where that cannot be done it stays among
the spent codes, which are exchanged for nobody.
"""

from collections.abc import Sequence
from typing import Final

from pydantic import SecretStr

from nextcloud_mcp_server.auth.budget import RedemptionBudget
from nextcloud_mcp_server.auth.callback import Params
from nextcloud_mcp_server.auth.oauth_client import has_shape_of_code
from nextcloud_mcp_server.auth.redeeming import Redeeming, uninterrupted
from nextcloud_mcp_server.errors import GrantRefused, NextcloudError, Throttled
from nextcloud_mcp_server.storage.records import Principal

#: In place of a browser's value: all of them share the failures that one browser may cause.
_ANY_BROWSER: Final = ""
#: Of more than one code none can be the right one; an attacker could write any number into an address.
_MOST_REMEMBERED: Final = 4


def codes_in(params: Params) -> Sequence[str]:
    """List the codes of a callback that are worth remembering."""
    return [code for code in params.get("code", ()) if has_shape_of_code(code)][:_MOST_REMEMBERED]


async def end_orphaned_code(
    redeeming: Redeeming,
    budget: RedemptionBudget,
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
    try:
        await budget.check(None, _ANY_BROWSER)
    except Throttled:
        return
    with uninterrupted():
        try:
            given = await redeeming.exchange_orphaned(
                owner, code=SecretStr(codes[0]), verifier=verifier, nonce=nonce
            )
        except GrantRefused:
            await budget.failed(owner, _ANY_BROWSER)
        except NextcloudError:
            # It was revoked by who exchanged it, or never exchanged; spent it stays in either case.
            return
        else:
            await redeeming.give_back(owner, given.tokens)

"""The one place from which the server sends a request to a client: each ends within its time limit.

A client may never answer. So every request has a deadline; when that passes, the SDK sends
`notifications/cancelled` for it, and the caller gives the link in text. A structural test keeps every other
module from sending requests: elicitation, sampling, roots, ping.
"""

import logging
from enum import Enum
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from pydantic import ValidationError

from nextcloud_mcp_server.errors import ElicitationRequired

logger = logging.getLogger(__name__)


class Reply(Enum):
    """What a client made of the question; `NONE` where no answer came, or none that can be read."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"
    NONE = "none"


async def show_page(ctx: ServerRequestContext[Any, Any], need: ElicitationRequired, *, until: float) -> Reply:
    """Have the client show a consent page, until a time of the event loop.

    "Could not be shown" is not "declined": it is `Reply.NONE`, and the log says why.
    """
    reason = "no answer came in time"
    try:
        with anyio.CancelScope(deadline=until):
            reply = await ctx.session.elicit_url(
                str(need), need.url, need.elicitation_id, related_request_id=ctx.request_id
            )
            return Reply(reply.action)
    except (NoBackChannelError, MCPError, ValidationError) as error:
        # What it says may be anything, its name for the failure not.
        reason = type(error).__name__
    logger.warning("a client did not show the consent page (%s), so the link is in the answer", reason)
    return Reply.NONE

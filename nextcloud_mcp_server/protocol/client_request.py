"""The one place that sends requests to a client; each ends within its time limit.

A client may never answer. So every request has a deadline; when that passes, the SDK sends
`notifications/cancelled` for it, and the caller returns the link as text. A structural test keeps every other
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
    """The client's reply; `NONE` if there was none, or an invalid one."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"
    NONE = "none"


async def show_page(ctx: ServerRequestContext[Any, Any], need: ElicitationRequired, *, until: float) -> Reply:
    """Ask the client to show a consent page, until a time of the event loop.

    A client that cannot show it has not declined: the result is `Reply.NONE`, and the log says why.
    """
    reason = "no answer came in time"
    try:
        with anyio.CancelScope(deadline=until):
            reply = await ctx.session.elicit_url(
                str(need), need.url, need.elicitation_id, related_request_id=ctx.request_id
            )
            return Reply(reply.action)
    except (NoBackChannelError, MCPError, ValidationError) as error:
        # Only the name of the exception is logged: its message may contain anything.
        reason = type(error).__name__
    logger.warning("a client did not show the consent page (%s), so the link is in the answer", reason)
    return Reply.NONE

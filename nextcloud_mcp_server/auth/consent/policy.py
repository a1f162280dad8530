"""The operator's settings for consent, and the sentences with which consent is asked for."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from nextcloud_mcp_server.nextcloud.program import PROGRAM
from nextcloud_mcp_server.storage.failure import STOPPED
from nextcloud_mcp_server.storage.records import Elicitation, Grant

#: A consent request that is not finished in this time has expired, where the settings do not say more.
LIFETIME = timedelta(seconds=600)

ASK = "Grant the MCP server access to your Nextcloud account to continue. This is a one-time setup."
ASK_AGAIN = "Your Nextcloud no longer accepts the access given earlier; please grant it again to continue."
ASK_MORE = "This needs a permission you have not given yet; please allow it to continue."

OVER = "This link is no longer valid; ask your assistant again for a new one."

#: Nextcloud does not tell a program what it shows to the user, so the likely causes are named.
IF_STOPPED = STOPPED.format(program=PROGRAM)
NOT_CONFIRMED = f"The link expired before the user had finished. {IF_STOPPED}"


def lifetime_of(timeout_seconds: int) -> timedelta:
    """Return how long a consent request stays open where clients wait for it so long."""
    return max(LIFETIME, timedelta(seconds=timeout_seconds))


@dataclass(frozen=True, slots=True)
class Policy:
    """The operator's settings for consent.

    `page_url` builds the URL of this server's consent page from an id. With None users go straight to
    Nextcloud, as they must in a process without a web server. `page_is_gone` tells whether a page that an earlier
    process linked to has ended with it; None where pages outlive processes. `lifetime` is how long a consent request
    stays open: at least as long as a client may wait for it.
    """

    nextcloud_url: str
    nextcloud_host: str
    bound: frozenset[str]
    page_url: Callable[[str], str] | None
    page_is_gone: Callable[[str], Awaitable[bool]] | None = None
    lifetime: timedelta = LIFETIME

    @property
    def kind(self) -> str:
        """The kind of new consent requests: through this server's page, or directly at Nextcloud.

        The two kinds do not mix.
        """
        return "page" if self.page_url else "direct"

    async def beside(self, find_open: Callable[[], Awaitable[Elicitation | None]]) -> "Policy":
        """Return the policy for a new consent request: without a page for a client whose page ended with its process.

        Some clients start a process for each call. The page of such a process is gone before anybody can open it,
        while Nextcloud's own page works at any time.
        """
        left = None if self.page_is_gone is None else await find_open()
        if self.page_is_gone is None or left is None or not await self.page_is_gone(left.url):
            return self
        return replace(self, page_url=None)

    def message(self, grant: Grant | None, *, obstacle: str = "") -> str:
        """Return the sentence that asks for consent.

        `grant` is what the user has given already, `obstacle` why Nextcloud did not let them confirm just now.
        """
        message = ASK
        if grant is not None:
            message = ASK_AGAIN if grant.credential.needs_reauth else ASK_MORE
        if self.page_url is None:
            # Nextcloud's own page cannot name the scopes, so the message must.
            message += f" It will allow: {', '.join(sorted(self.bound))}."
        return f"{message} The last try did not work: {obstacle}" if obstacle else message

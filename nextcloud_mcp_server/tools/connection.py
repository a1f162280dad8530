"""The three tools that are always available: request access, show it, and end it."""

from typing import Annotated

from pydantic import Field

from nextcloud_mcp_server.auth.accounts import Connection
from nextcloud_mcp_server.auth.scopes import SCOPES, expand
from nextcloud_mcp_server.errors import InvalidInput, Link
from nextcloud_mcp_server.nextcloud.capabilities import ServerCapabilities
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.tools.access import Access
from nextcloud_mcp_server.tools.result import NextStep, Result
from nextcloud_mcp_server.tools.toolset import Toolset, without_asking, without_provisioning

connection = Toolset("connection")


class Status(NextStep):
    """The state of the connection. `apps` lists the apps of the person's Nextcloud that this server can use."""

    connected: bool
    account: str | None = None
    display_name: str | None = None
    permissions: tuple[str, ...] = ()
    server_version: str | None = None
    apps: list[str] | None = None


class Revoked(Result):
    """How the disconnect ended."""

    connected: bool = False
    message: str


@connection.tool(
    "Connect Nextcloud",
    repeatable=True,
    aliases={"provision_nextcloud_access": {}, "nc_auth_provision_access": {}, "check_logged_in": {}},
)
@without_provisioning
async def request_nextcloud_access(
    access: Access,
    permissions: Annotated[
        list[str] | None,
        Field(description='Such as "notes:read" or "notes"; default: all reading that this server offers'),
    ] = None,
) -> Status:
    """Ask the person to connect their Nextcloud, or to permit more.

    Rarely needed: the other tools ask by themselves.
    """
    # A write scope that the user did not ask for must not be preselected on the page, which offers the others
    # anyway.
    words = frozenset(permissions or expand(["read"]) & access.bound or access.bound)
    named, offered = words.intersection(SCOPES), access.services.bound
    # A bundle stands for those of its scopes that exist here; a scope that is named itself must exist.
    if unknown := sorted(word for word in words - named if not expand([word]) & offered):
        offers = ", ".join(sorted(access.bound)) or "none"
        raise InvalidInput(f"There is no permission {unknown[0][:64]!r}. This server offers: {offers}.")
    scopes = named | (expand(words - named) & offered)
    if not scopes:
        raise InvalidInput("This server offers no permissions; tell the operator to enable toolsets.")
    await access.request(scopes)
    return await _status(access)


@connection.tool("Show the Nextcloud connection", read_only=True, aliases={"nc_auth_check_status": {}})
@without_asking
async def check_provisioning_status(access: Access) -> Status:
    """Tell whether Nextcloud is connected, as whom, with which permissions, and what to do next."""
    return await _status(access)


@connection.tool("Disconnect Nextcloud", destructive=True, repeatable=True)
@without_asking
async def revoke_nextcloud_access(access: Access) -> Revoked:
    """End this app's access to Nextcloud, when the person asks for it. The next use asks again."""
    ended = await access.disconnect()
    if ended.account_url:
        did = "This app's access has ended." if ended.was_connected else "This app had no access."
        message = f"{did} Other apps stay connected; to end all of it, the user opens this page in a browser:"
        return Revoked(
            message=wire.with_link(message, Link(ended.account_url, "Nothing else is to be done here."))
        )
    if not ended.was_connected:
        return Revoked(message="Nothing was connected.")
    if ended.at_nextcloud:
        return Revoked(message="Disconnected; the access was deleted at Nextcloud too.")
    if ended.by_hand:
        return Revoked(
            message="Disconnected here only: the key of the stored access is missing. Delete the app password "
            "of this server in Nextcloud under Settings > Security."
        )
    return Revoked(
        message="Disconnected here. Nextcloud could not be reached yet; deleting the access there is tried "
        "until it succeeds."
    )


async def _status(access: Access) -> Status:
    known = await access.connection()
    # A client without any granted scope may not send requests to the user's Nextcloud, and asking for the state of
    # the connection must not ask for consent.
    asks = known.connected and bool(known.scopes)
    server = await access.server() if asks else None
    if server is None and asks:
        # Nextcloud may just have rejected the credential.
        known = await access.connection()
    if asks and server is None and known.connected:
        step = "Nextcloud does not answer right now; try again in a minute."
        return _of(known, server, step)
    granted = known.scopes if known.connected else frozenset[str]()
    request = await access.open_request()
    # What a request asks for may have been allowed on the account page meanwhile.
    if request is not None and (missing := request.scopes - granted):
        step = f"A consent request waits for the person's answer. It asks for {', '.join(sorted(missing))}. "
        link = Link(request.url, wire.THEN)
        return _of(known, server, f"{step}The user opens this link in a browser:", link)
    if known.connected:
        return _of(known, server, _next_step(access.bound - granted, beyond=access.beyond_token))
    return _of(known, server, "Call request_nextcloud_access, or any tool, to ask the person for access.")


def _of(
    known: Connection, server: ServerCapabilities | None, next_step: str, link: Link | None = None
) -> Status:
    if not known.connected:
        again = "The earlier access no longer works. " if known.needs_reauth else ""
        return Status(connected=False, next_step=f"{again}{next_step}", link=link)
    return Status(
        connected=True,
        account=known.account_name,
        display_name=known.display_name or None,
        permissions=tuple(sorted(known.scopes)),
        server_version=server.version if server else None,
        apps=sorted(server.apps) if server else None,
        next_step=next_step,
        link=link,
    )


def _next_step(more: frozenset[str], *, beyond: frozenset[str]) -> str:
    step = "Nothing; use the tools."
    if more:
        step = f"Use the tools; what needs {', '.join(sorted(more))} will ask the person first."
    if beyond:
        step += f" For {', '.join(sorted(beyond))} the app has to sign in again and ask for it."
    return step

"""Runs the bridge: finds its servers, and connects a chat client over stdio with them."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
import httpx2
from pydantic import ValidationError

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.bridge.browser import Browser, default_launch
from nextcloud_mcp_server.bridge.chat import stdio
from nextcloud_mcp_server.bridge.configuration import Configuration, Server
from nextcloud_mcp_server.bridge.configuration_values import first_fault
from nextcloud_mcp_server.bridge.forwarding import Backend, Bridge, Options
from nextcloud_mcp_server.bridge.opening import Transport
from nextcloud_mcp_server.bridge.pages import Browsing, Policy
from nextcloud_mcp_server.bridge.permissions import decide, decide_elicitation
from nextcloud_mcp_server.commands.console import say
from nextcloud_mcp_server.commands.mcp_client.signals import until_told_to_end
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.environment import process_variables

_OTHERS: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 50


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of the command."""

    files: tuple[Path, ...] = ()
    headers: tuple[str, ...] = ()
    sign_in: bool = True
    oauth_port: int | None = None
    browsing: Browsing = "open"
    policy: Policy = "auto"
    consent_seconds: float = 600.0


def run(targets: Sequence[str], wishes: Wishes) -> None:
    """Serve the chat client that started this program, until it closes its input.

    Raises:
        ConfigurationError: There is no server to connect, or one is described wrongly.
    """
    logs.set_up("error")
    # The SDK prints a trace for each line that is no message.
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # Nobody sits at a machine that builds and tests.
    browsing: Browsing = (
        "never" if wishes.browsing == "open" and process_variables().get("CI") else wishes.browsing
    )
    options = Options(policy=wishes.policy, browsing=browsing, consent_seconds=wishes.consent_seconds)
    configuration, servers = found_servers(targets, wishes)
    anyio.run(partial(_serve, configuration, servers, options, wishes))


def found_servers(targets: Sequence[str], wishes: Wishes) -> tuple[Configuration, list[Server]]:
    """Return the servers that are named by address or name, or all configured ones.

    Raises:
        ConfigurationError: There is none, or one is described wrongly.
        CallNotAllowed: It is in a project's file that the user has not approved.
        ServerUnknown: A name is not configured.
    """
    addresses = [target for target in targets if "://" in target]
    headers = _headers(wishes.headers)
    given = [_at(url, headers, number, wishes) for number, url in enumerate(addresses, 1)]
    names = [target for target in targets if "://" not in target]
    if addresses and not names:
        return Configuration(), given
    # It imports the SDK's client, which a bridge to an address does not need.
    from nextcloud_mcp_server.commands.mcp_client.session import Choice, server_of  # noqa: PLC0415 - see above
    from nextcloud_mcp_server.commands.mcp_client.trusting import refuse_unapproved  # noqa: PLC0415 - see above

    configuration = Choice(wishes.files).configuration()
    known = [server for server in configuration.servers if not server.disabled]
    chosen = [server_of(configuration, name) for name in names] if names else known
    if not chosen:
        refuse_unapproved(configuration)
        raise ConfigurationError(
            "There is no server to connect: name an address (bridge https://…/mcp), or configure servers; see "
            "docs/bridge.md."
        )
    return configuration, [*chosen, *given]


def _at(url: str, headers: dict[str, str], number: int, wishes: Wishes) -> Server:
    """Describe the server at an address; its name is made of the host."""
    host = urlsplit(url).hostname or ""
    name = _OTHERS.sub("-", host.lower()).strip("-")[:_LONGEST_NAME] or "server"
    has_token = any(header.lower() == "authorization" for header in headers)
    try:
        return Server(
            id=name if number == 1 else f"{name}-{number}",
            transport="http",
            url=url,
            headers=headers,
            oauth="auto" if wishes.sign_in and not has_token else "off",
            sampling_enabled=True,
        )
    except ValidationError as error:
        raise ConfigurationError(first_fault(error, ())) from None


def _headers(given: Sequence[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    # What follows may be a secret.
    if any(not equals for _, equals, _ in pairs):
        raise ConfigurationError("--header wants NAME=VALUE, and one has no “=”.")
    return {name.strip(): value.strip() for name, _, value in pairs}


async def _serve(
    configuration: Configuration, servers: Sequence[Server], options: Options, wishes: Wishes
) -> None:
    launch = default_launch(process_variables()) if options.browsing == "open" else None
    browser = Browser(say, launch=launch)
    asks = None if options.browsing == "never" else browser
    backends = [_backend(configuration, server, asks, wishes) for server in servers]
    async with stdio() as streams:
        # A chat client may keep our input open; it then waits for nothing but our end.
        await until_told_to_end(Bridge(streams, backends, browser, options, say).run, exit_code=0)


def _backend(
    configuration: Configuration, server: Server, browser: Browser | None, wishes: Wishes
) -> Backend:
    enabled = {
        "tools": server.tools_enabled,
        "resources": server.resources_enabled,
        "prompts": server.prompts_enabled,
    }
    asking = decide_elicitation(configuration, server).verdict

    def auth() -> httpx2.Auth | None:
        if server.oauth == "off":
            return None
        # Chat clients wait for the start.
        from nextcloud_mcp_server.bridge.oauth.http_auth import http_auth  # noqa: PLC0415 - see above
        from nextcloud_mcp_server.bridge.oauth.store import open_store  # noqa: PLC0415 - see above

        variables = process_variables()
        return http_auth(
            server,
            open_store(variables),
            browser,
            environment=variables,
            port=wishes.oauth_port,
            name=server.url,
        )

    def denial(tool: str) -> str:
        decision = decide(configuration, server, tool)
        return f"The permissions do not allow it. {decision}" if decision.verdict == "deny" else ""

    return Backend(
        server.id,
        Transport(server, lambda line: say(f"[{server.id}] {line}"), auth),
        hidden=frozenset(part for part, is_on in enabled.items() if not is_on),
        sampling=server.sampling_enabled,
        elicitation=server.elicitation_enabled and asking != "deny",
        trusted=asking == "allow",
        denial=denial,
    )

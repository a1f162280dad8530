"""Starts the server."""

import errno
import gc
import logging
import socket

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.commands.console import by_option, program, say
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.database_file import refuse_unusable_file, refuse_unwritable
from nextcloud_mcp_server.settings.environment import Settings

logger = logging.getLogger(__name__)

_OBJECTS_BETWEEN_COLLECTIONS = 10_000


def serve(settings: Settings) -> None:
    """Serve until the client disconnects (stdio) or the operator stops the server (HTTP)."""
    # The lines name the option where it set the value, for as long as the server runs.
    is_text = logs.set_up(settings.log_level, settings.log_format, reword=by_option)
    if not settings.sandbox:
        settings.require_nextcloud()
    if settings.token_encryption_keys:
        from nextcloud_mcp_server.storage.crypto import KeyRing  # noqa: PLC0415 - only where keys are given

        # Checked now, since the database opens only with the first call.
        KeyRing.parse(settings.token_encryption_keys, source=settings.key_source)
    for sentence in settings.warnings:
        logger.warning(sentence)
    # Over stdio the database opens only with the first call, so what can never work is refused here.
    refuse_unwritable(settings)
    refuse_unusable_file(settings)
    port = claim_port(settings.host, settings.port) if settings.transport == "http" else 0

    def listening() -> None:
        announce(settings, port, is_text=is_text)

    # Imports create many permanent objects and no garbage; collecting would take a twentieth of the start.
    gc.disable()
    # After the checks: it imports the SDK, which takes most of a second.
    from nextcloud_mcp_server.server import app  # noqa: PLC0415 - see above

    gc.freeze()
    gc.enable()
    # A page creates thousands of short-lived objects, none in a cycle: with Python's default they are scanned three
    # times.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)

    if settings.transport == "http":
        anyio.run(app.run_http, settings, settings.host, port, listening)
    else:
        anyio.run(app.run_stdio, settings, listening)


def announce(settings: Settings, port: int, *, is_text: bool) -> None:
    """Say where the server listens: in some lines for a reader, or as one line of a log for programs."""
    if is_text:
        say(greeting(settings, port))
        return
    where = "stdio" if settings.transport == "stdio" else mcp_url(settings, port)
    fields = {"nextcloud": _nextcloud(settings), "connect": how_to_connect(settings, port)}
    logger.info("listening on %s", where, extra=fields)


def greeting(settings: Settings, port: int) -> str:
    """Return the text at the start: the server's address, its Nextcloud, and how a client connects."""
    behind, connect = _nextcloud(settings), f"To connect a client: {how_to_connect(settings, port)}"
    if settings.transport == "stdio":
        return (
            "Nextcloud MCP server, listening on stdio: it waits for a client to speak.\n"
            f"Nextcloud: {behind}\n"
            f"{connect}"
        )
    lines = [
        f"Nextcloud MCP server, listening on {mcp_url(settings, port)}",
        f"Nextcloud: {behind}",
    ]
    if settings.multi_user:
        if not settings.server_url.endswith(f":{port}"):
            lines.append(f"For the reverse proxy: {_url(settings.host, port)}")
        lines.append(f"Users sign in at {settings.oidc_issuer or settings.nextcloud_public_url or behind}.")
        return "\n".join([*lines, connect])
    if settings.no_local_auth:
        lines.append("No secret is asked for: every program on this computer can call (--no-local-auth).")
    else:
        lines.append("Clients need the bearer secret of this server.")
    return "\n".join([*lines, connect])


def _nextcloud(settings: Settings) -> str:
    if settings.sandbox:
        return "the built-in sandbox Nextcloud (alice and bob; nothing is kept)"
    return settings.require_nextcloud()


def how_to_connect(settings: Settings, port: int) -> str:
    """Return what a user does, or the command, to connect a client."""
    if settings.transport == "stdio":
        option = "--sandbox" if settings.sandbox else f"--nextcloud {settings.require_nextcloud()}"
        return f"{program()} config claude-code {option} (claude-desktop, vscode, cursor, codex)"
    if settings.multi_user:
        return f"add {settings.resource_url} to it as a remote MCP server."
    default = Settings.model_fields["port"].default
    at = ("" if port == default else f" --port {port}") + (" --sandbox" if settings.sandbox else "")
    return f"{program()} config claude-code --http{at} (vscode, cursor, codex)"


def mcp_url(settings: Settings, port: int) -> str:
    """Return the URL for clients."""
    if settings.nextcloud_mcp_server_url is not None:
        return f"{settings.nextcloud_mcp_server_url.rstrip('/')}/mcp"
    # A wildcard address is for listening, not for connecting.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    return f"{_url(host, port)}/mcp"


def _url(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def claim_port(host: str, port: int) -> int:
    """Return the port to listen on, checked before it is printed.

    Raises:
      ConfigurationError: Another program listens there, or the address is not this computer's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ConfigurationError(
                    f"Cannot listen on {host}, port {port}: something does already, perhaps this server itself. Stop "
                    "it, or choose another port with --port."
                ) from error
            raise ConfigurationError(
                f"Cannot listen on {host}, port {port} ({error.strerror or error}): choose another "
                "with --port (0 takes a free one) or --host."
            ) from error
        return int(probe.getsockname()[1])

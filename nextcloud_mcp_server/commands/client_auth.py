"""The commands `client auth` and `client logout`."""

import os
import queue
import sys
import threading
from typing import Final

import anyio

from nextcloud_mcp_server.bridge.configuration import Configuration, Server
from nextcloud_mcp_server.bridge.oauth.authorization import Paste
from nextcloud_mcp_server.bridge.oauth.sign_in import sign_in, sign_out
from nextcloud_mcp_server.bridge.oauth.store import open_store
from nextcloud_mcp_server.bridge.oauth.target import Target, target_of
from nextcloud_mcp_server.commands.console import result, say
from nextcloud_mcp_server.commands.mcp_client.session import make_browser, name_of, server_of
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.environment import process_variables

_LONGEST: Final = 16_000
_POLL_SECONDS: Final = 0.2
_ENDINGS: Final = {
    "revoked": "the access was revoked there, and deleted here.",
    "not offered": "the access was deleted here; the server offers no revocation, so it ends there when it expires.",
    "failed": "the access was deleted here, but could not be revoked there: end it in your account at the server.",
}


async def sign_in_to(configuration: Configuration, name: str, *, port: int | None, may_open: bool) -> None:
    """Sign in to a server, and keep the tokens.

    Raises:
      ConfigurationError: It has no sign-in.
      AuthorizationFailed: No tokens were obtained, or they cannot be kept.
    """
    target = _target(configuration, name, port)
    store = open_store(process_variables())
    paste = TerminalPaste() if sys.stdin.isatty() else None
    await sign_in(target, store, make_browser(may_open=may_open), paste=paste)
    result(f"Authorization successful for {target.server_id}")
    say(f"The access is kept here: {store.place}")


async def sign_out_of(configuration: Configuration, name: str) -> int:
    """Sign out of a server; return the exit code.

    Raises:
      ConfigurationError: It has no sign-in.
      TokenStoreFailed: The tokens here cannot be deleted.
    """
    target = _target(configuration, name, None)
    done = await sign_out(target, open_store(process_variables()))
    if not done.had_tokens:
        result(f"Not signed in to {target.server_id}.")
        return 0
    result(f"Signed out of {target.server_id}: {_ENDINGS[done.revoked]}")
    return 1 if done.revoked == "failed" else 0


class TerminalPaste(Paste):
    """Lines of the terminal, read beside the sign-in, which may end before one comes."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_started = False

    async def line(self) -> str:
        """Wait for a line; "" at the end of the input."""
        if not self._is_started:
            self._is_started = True
            # A daemon without Python's own buffer of stdin: the program may end while it waits.
            threading.Thread(target=self._read, daemon=True).start()
        while True:
            try:
                return self._lines.get_nowait()
            except queue.Empty:
                await anyio.sleep(_POLL_SECONDS)

    def _read(self) -> None:
        while True:
            try:
                text = os.read(self._descriptor, _LONGEST).decode(errors="replace")
            except OSError:
                text = ""
            self._lines.put(text)
            if not text:
                return


def _target(configuration: Configuration, name: str, port: int | None) -> Target:
    server = server_of(configuration, name)
    _check_has_sign_in(server)
    return target_of(server, process_variables(), port=port, name=name_of(server))


def _check_has_sign_in(server: Server) -> None:
    if server.transport == "stdio":
        raise ConfigurationError("auth is only supported for HTTP servers")
    if server.oauth == "off":
        raise ConfigurationError(f'{server.id} has oauth = "off"; set it to "auto" (or "manual") to sign in.')

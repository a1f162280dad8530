"""The consent page of a server over stdio: on a loopback port, for as long as a consent request is open.

Without it the user is sent straight to Nextcloud, whose page can neither name what is asked for nor offer a choice.
The port is bound to 127.0.0.1 alone and chosen by the system. The pages lie below a random path, which only the link
holds, and answer no other Host and Origin than their own; there is no other route.
"""

import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from nextcloud_mcp_server.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from nextcloud_mcp_server.auth.consent.service import ConsentService

logger = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
#: How often the server looks whether a consent request is still open.
LOOK_SECONDS = 2.0
#: How long the pages stay after the last consent request has ended, so that its result can be read, or read again.
LINGER_SECONDS = 60.0

#: Returns those of some consent requests that have ended.
Finished = Callable[[Sequence[str]], Awaitable[list[str]]]
#: Wraps the application with the pages.
Around = Callable[["ASGIApp"], "ASGIApp"]


@dataclass
class _Port:
    """A bound port, the path below which its pages lie, and the open consent requests whose links lead there."""

    listener: socket.socket
    root_path: str = field(repr=False)
    elicitation_ids: set[str] = field(default_factory=set[str])

    @property
    def host(self) -> str:
        """The value of the Host header."""
        return f"{_LOOPBACK}:{self.listener.getsockname()[1]}"


class LoopbackPages:
    """Binds a port with the first link, serves the pages there, and closes it when no consent request is open."""

    def __init__(self, *, look_seconds: float = LOOK_SECONDS, linger_seconds: float = LINGER_SECONDS) -> None:
        self._look_seconds = look_seconds
        self._linger_seconds = linger_seconds
        self._port: _Port | None = None
        self._wanted = anyio.Event()

    def page_url(self, elicitation_id: str) -> str:
        """Return the link to the page of a consent request; browsers that come early wait in the port's queue.

        Raises:
            ConfigurationError: The system gives no port.
        """
        if self._port is None:
            try:
                listener = socket.create_server((_LOOPBACK, 0))
            except OSError as error:
                raise ConfigurationError(
                    f"This computer gives no port for the consent page ({error.strerror or error}). With "
                    "CONSENT_PAGE=nextcloud users go straight to Nextcloud."
                ) from error
            self._port = _Port(listener, f"/{secrets.token_urlsafe(24)}")
        self._port.elicitation_ids.add(elicitation_id)
        self._wanted.set()
        return (
            f"http://{self._port.host}{self._port.root_path}/oauth/provision?elicitationId={elicitation_id}"
        )

    async def is_gone(self, url: str) -> bool:
        """Tell whether the process that made a link to a page here has ended: nothing listens at its port."""
        address = urlsplit(url)
        if address.hostname != _LOOPBACK or address.port is None:
            return False
        try:
            async with await anyio.connect_tcp(_LOOPBACK, address.port):
                return False
        except OSError:
            return True

    async def run(
        self,
        consent_service: Callable[[], Awaitable["ConsentService"]],
        *,
        keys: Callable[[], Sequence[bytes]],
        finished: Finished,
        around: Around = lambda app: app,
    ) -> None:
        """Serve whenever a link was made, for as long as the server runs; `around` wraps the pages."""
        try:
            while True:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                if self._port is not None:
                    await self._serve(
                        self._port, consent_service, keys=keys, finished=finished, around=around
                    )
        finally:
            self.close()

    def close(self) -> None:
        """Close the port, if one is bound and not served."""
        if self._port is not None:
            self._port.listener.close()
            self._port = None

    async def _serve(
        self,
        port: _Port,
        consent_service: Callable[[], Awaitable["ConsentService"]],
        *,
        keys: Callable[[], Sequence[bytes]],
        finished: Finished,
        around: Around,
    ) -> None:
        import uvicorn  # noqa: PLC0415 - loaded with the first link

        from nextcloud_mcp_server.web.connections import ConnectionLimits, server_config  # noqa: PLC0415 - see above
        from nextcloud_mcp_server.web.loopback import loopback_app  # noqa: PLC0415 - see above

        class Server(uvicorn.Server):
            @contextmanager
            def capture_signals(self) -> Generator[None]:
                """Leave the signals to the program around it."""
                yield

        app = loopback_app(consent_service, keys=keys, host=port.host, root_path=port.root_path)
        server = Server(server_config(around(app), ConnectionLimits(), lifespan="off"))

        async def serve() -> None:
            # Shielded: cancelled, it would leave its socket behind in the event loop.
            with anyio.CancelScope(shield=True):
                await server.serve(sockets=[port.listener])

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            try:
                await self._until_over(port, finished)
            finally:
                # From here on a new link binds another port.
                self._port = None
                server.should_exit = True

    async def _until_over(self, port: _Port, finished: Finished) -> None:
        """Wait until every consent request of a port has ended, and its result was shown."""
        over_since: float | None = None
        while True:
            await anyio.sleep(self._look_seconds)
            port.elicitation_ids -= await self._ended(list(port.elicitation_ids), finished)
            if port.elicitation_ids:
                over_since = None
            else:
                over_since = anyio.current_time() if over_since is None else over_since
                if anyio.current_time() - over_since >= self._linger_seconds:
                    return

    async def _ended(self, elicitation_ids: Sequence[str], finished: Finished) -> set[str]:
        try:
            return set(await finished(elicitation_ids))
        except Exception:  # a supervisor: a database that is busy once must not take the page away
            logger.exception("it could not be looked up whether a consent request is open; trying again")
            return set()

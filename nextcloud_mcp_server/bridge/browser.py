"""Opens pages that other servers name in the user's browser: never through a shell, and only http and https."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

import anyio.to_thread

from nextcloud_mcp_server.errors import BridgeError

#: What a program that opens a page may take before it counts as a browser that stays in the foreground.
_LAUNCH_SECONDS: Final = 3.0
_LONGEST: Final = 8_000
#: RFC 3986 allows no others, and of those that it allows these mean nothing to a shell but `&`, `?`, `*` and brackets.
_PLAIN: Final = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!&()*+,=%]+")
_HOST: Final = re.compile(r"[A-Za-z0-9.\-]+|[0-9A-Fa-f:.]+")
#: Programs that open a page on Linux and other Unix systems.
_OPENERS: Final = ("xdg-open", "wslview")

#: Starts a browser with a URL, and says whether it could.
Launch = Callable[[str], bool]
#: Prints a text for the user.
Say = Callable[[str], None]


class UnsafeUrl(BridgeError):
    """A server named a URL that is not opened, or that nothing is sent to."""


class Browser:
    """The user's browser; `say` prints for the user, and `launch` starts the browser with a URL."""

    def __init__(self, say: Say, *, launch: Launch | None) -> None:
        self.say = say
        self._launch = launch

    async def show(self, url: str, purpose: str) -> bool:
        """Print a URL with its host, and open it; return whether a browser was started.

        Raises:
          UnsafeUrl: The URL is none that may be opened; nothing was.
        """
        host = page_url(url).netloc
        self.say(f"{purpose}\nOpen this page at {host} in your browser:\n\n  {url}\n")
        if self._launch is None:
            return False
        return await anyio.to_thread.run_sync(self._launch, url, abandon_on_cancel=True)


def page_url(url: str) -> SplitResult:
    """Parse the URL of a page for the user's browser.

    Raises:
      UnsafeUrl: Its scheme is not http or https, or it holds a name, a password, or characters that a shell acts on.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise UnsafeUrl("The server named a page whose URL is not valid; nothing was opened.") from None
    if parts.scheme not in {"http", "https"}:
        raise UnsafeUrl("The server named a page that is not on the web (http or https); nothing was opened.")
    if len(url) > _LONGEST or not _PLAIN.fullmatch(url):
        raise UnsafeUrl(
            "The server named a page whose URL has characters it may not have; nothing was opened."
        )
    if not host or not _HOST.fullmatch(host) or parts.username is not None:
        raise UnsafeUrl("The server named a page without a plain host name; nothing was opened.")
    return parts


def is_loopback(host: str | None) -> bool:
    """Tell whether a host name is this computer's own."""
    if host is None:
        return False
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def default_launch(environment: Mapping[str, str], *, platform: str = sys.platform) -> Launch | None:
    """Return what opens a page on this computer; None where there is no desktop."""
    if platform == "win32":
        return _start_file
    if platform == "darwin":
        return _launcher("/usr/bin/open")
    # Without a desktop `xdg-open` starts browsers for the terminal, which a server over stdio does not have.
    if not any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")):
        return None
    return next((_launcher(path) for name in _OPENERS if (path := shutil.which(name))), None)


def _launcher(program: str) -> Launch:
    def launch(url: str) -> bool:
        page_url(url)
        try:
            # The standard streams belong to the protocol and to the user's terminal.
            process = subprocess.Popen(  # noqa: S603 - a list without a shell, and a URL that was checked
                [program, url],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return False
        ended = threading.Thread(target=process.wait, daemon=True)
        ended.start()
        ended.join(_LAUNCH_SECONDS)
        # One that still runs is a browser in the foreground; the thread waits for its end, so that no zombie is left.
        return process.returncode in (0, None)

    return launch


def _start_file(url: str) -> bool:
    page_url(url)
    if sys.platform != "win32":
        return False
    try:
        os.startfile(url)  # noqa: S606 - a URL that was checked
    except OSError:
        return False
    return True

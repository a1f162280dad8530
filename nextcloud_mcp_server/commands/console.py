"""Console output: results to stdout, everything else to stderr."""

import json
import logging
import re
import shutil
import sys
import time
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import typer

from nextcloud_mcp_server.errors import ConfigurationError, NextcloudMcpError

logger = logging.getLogger(__name__)

_PROGRAM: Final = "nextcloud-mcp-server"
_WRONG_SETTINGS: Final = 2
#: What a terminal acts on, or reorders, and JSON leaves as it is.
_ACTED_ON: Final = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_NUMBER: Final = re.compile(r"\d+")
#: Between two lines that differ in their numbers alone, where no terminal overwrites them.
_SECONDS_BETWEEN_COUNTS: Final = 30.0

#: The options that set what a variable sets otherwise.
OPTIONS: Final = {
    "NEXTCLOUD_HOST": "--nextcloud",
    "NEXTCLOUD_MCP_HOST": "--host",
    "NEXTCLOUD_MCP_PORT": "--port",
    "NEXTCLOUD_MCP_SERVER_URL": "--server-url",
    "TOOLSETS": "--toolsets",
}


def program() -> str:
    """Return what starts this program in the user's terminal: a checkout has it in a folder that is not in PATH."""
    started = sys.argv[0]
    is_script = Path(started).name.removesuffix(".exe") == _PROGRAM
    return started if is_script and shutil.which(_PROGRAM) is None else _PROGRAM


def say(text: str) -> None:
    """Print a line that is not a result, so that stdout can be piped (or used for MCP)."""
    typer.echo(text, err=True)


def by_option(sentence: str, arguments: Sequence[str] | None = None) -> str:
    """Name the option in place of the variable where the option set the value; `arguments` are the program's own."""
    given = {argument.partition("=")[0] for argument in (sys.argv[1:] if arguments is None else arguments)}
    for variable, option in OPTIONS.items():
        if option in given:
            sentence = re.sub(rf"\b{variable}\b", option, sentence)
    return sentence


def give_up(error: NextcloudMcpError) -> NoReturn:
    """Print an error as sentences, and exit: with 2 if the settings are wrong, else with 1.

    A server with LOG_FORMAT=json logs it: what collects its log reads nothing else.
    """
    wrong = isinstance(error, ConfigurationError)
    if _logs_json(sys.argv[1:]):
        from nextcloud_mcp_server import logs  # noqa: PLC0415 - only where a server did not start

        logs.set_up(form="json", reword=by_option)
        for sentence in _not_read() if wrong else ():
            logger.warning("%s", sentence)
        # A list of missing settings has a line for each.
        logger.error("%s", " ".join(str(error).split()))
    else:
        if wrong:
            say_what_is_not_read()
        say(f"Error: {by_option(str(error))}")
    sys.exit(_WRONG_SETTINGS if wrong else 1)


def say_what_is_not_read() -> None:
    """Name the variables that are not read: a setting that seems to be missing may be one of them."""
    for sentence in _not_read():
        say(f"Note: {sentence}")


def _not_read() -> Sequence[str]:
    from nextcloud_mcp_server.settings.environment import not_read  # noqa: PLC0415 - only before a refusal

    return not_read()


def _logs_json(arguments: Sequence[str]) -> bool:
    """Tell whether the program is a server whose log the operator wants as JSON; its settings may be the fault."""
    from nextcloud_mcp_server.settings.environment import process_variables  # noqa: PLC0415 - only before a refusal

    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    return command == "serve" and process_variables().get("LOG_FORMAT", "").strip().lower() == "json"


def result(text: str) -> None:
    """Print a line of the result."""
    typer.echo(text)


def result_json(value: object, *, indent: int | None = None) -> None:
    """Print a result as JSON; texts of users and clients in it cannot control the terminal."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    result(_ACTED_ON.sub(lambda match: f"\\u{ord(match.group()):04x}", text))


class Progress:
    """Progress on one line that is overwritten at a terminal.

    Elsewhere whole lines: a text that differs from the last one in its numbers alone is printed twice a minute at most.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._live = sys.stderr.isatty()
        self._monotonic = monotonic
        self._last = self._unsaid = ""
        self._next_at = 0.0

    def __call__(self, text: str) -> None:
        """Show a progress text."""
        if text == self._last:
            return
        counts_on = _NUMBER.sub("", text) == _NUMBER.sub("", self._last)
        self._last = text
        if self._live:
            typer.echo(f"\r\x1b[2K{text}", err=True, nl=False)
        elif counts_on and self._monotonic() < self._next_at:
            self._unsaid = text
        else:
            self._say(text)

    def close(self) -> None:
        """End the line, or print the last text that was held back."""
        if self._live and self._last:
            typer.echo("", err=True)
        elif self._unsaid:
            self._say(self._unsaid)

    def _say(self, text: str) -> None:
        self._unsaid, self._next_at = "", self._monotonic() + _SECONDS_BETWEEN_COUNTS
        typer.echo(text, err=True)


def open_browser(url: str) -> None:
    """Open a page, and print its URL for users whose browser does not open."""
    say(f"Opening your browser. If nothing opens, go to:\n\n  {url}\n")
    with suppress(webbrowser.Error):
        webbrowser.open(url)


def print_link(url: str) -> None:
    """Print the URL of a page."""
    say(f"Open this page in a browser:\n\n  {url}\n")

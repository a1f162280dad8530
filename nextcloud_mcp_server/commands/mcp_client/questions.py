"""What a server asks the user of the command line: to fill in a form, or to open a page.

Where no user can answer, or the permissions deny it, a question ends at once, and a line says so.
"""

import json
import math
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import mcp_types as types
import typer
from mcp import MCPError
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import UrlElicitationRequiredError

from nextcloud_mcp_server.bridge.browser import UnsafeUrl
from nextcloud_mcp_server.bridge.output import safe
from nextcloud_mcp_server.bridge.permissions import Decision
from nextcloud_mcp_server.bridge.schema_check import SchemaCheck
from nextcloud_mcp_server.commands.console import say
from nextcloud_mcp_server.errors import ElicitationFailed
from nextcloud_mcp_server.logs import one_line

_MOST_TRIES: Final = 3
_MOST_FIELDS: Final = 50
_DECLINE: Final = "decline"
_LONGEST: Final = 1000
#: A call is repeated so often while a page is open, for servers that do not say when it is done.
_AGAIN_SECONDS: Final = 20.0
#: Servers hold a consent request for five to ten minutes.
_CONSENT_SECONDS: Final = 600.0

_Result = TypeVar("_Result")
Answer = types.ElicitResult
#: Prints a question and reads a line; None at the end of the input.
ReadLine = Callable[[str], Awaitable[str | None]]


class Show(Protocol):
    """Shows a page to the user, and says whether a browser was started."""

    def __call__(self, url: str, purpose: str) -> Awaitable[bool]:
        """Show a page; `purpose` says what it is for."""
        ...


class Questions:
    """Answers a server's questions by asking the user; `decision` says whether it may ask."""

    def __init__(
        self, server: str, decision: Decision, show: Show, read_line: ReadLine, *, yes: bool
    ) -> None:
        self._server = server
        self._decision = decision
        self._show = show
        self._read_line = read_line
        self._yes = yes
        self._completed: set[str] = set()
        self._news = anyio.Event()
        self._shown: set[str] = set()

    async def answer(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> Answer:
        """Answer one question: the SDK calls this in every form that the protocol has for it."""
        del context
        if self._decision.verdict == "deny":
            say(f"The server {self._server} asked something, and the permissions deny it.")
            return Answer(action="decline")
        if isinstance(params, types.ElicitRequestURLParams):
            return await self._page(params)
        return await self._form(params)

    async def notified(self, notification: types.ServerNotification) -> None:
        """Hear that the user has finished at a page."""
        if isinstance(notification, types.ElicitCompleteNotification):
            # It may come before the answer that asks for the page.
            self._completed.add(notification.params.elicitation_id)
            self._news.set()

    async def with_pages(self, call: Callable[[], Awaitable[_Result]]) -> _Result:
        """Send a request; where it fails for want of a page (-32042), show the page, wait, and send it again.

        Raises:
            ElicitationFailed: The user did not want to, or did not finish in time.
        """
        ends_at = anyio.current_time() + _CONSENT_SECONDS
        while True:
            self._news = anyio.Event()
            try:
                return await call()
            except MCPError as error:
                if error.code != types.URL_ELICITATION_REQUIRED:
                    raise
                wanted = UrlElicitationRequiredError.from_error(error.error).elicitations
            for page in wanted:
                key = page.elicitation_id or page.url
                if key not in self._shown:
                    self._shown.add(key)
                    if (await self.answer(cast("Any", None), page)).action != "accept":
                        raise ElicitationFailed(
                            "MCP elicitation error: the page that the call needs was not opened."
                        )
            if anyio.current_time() > ends_at:
                raise ElicitationFailed(
                    "MCP elicitation error: nobody finished at the page in time; call again."
                )
            if not self._completed & self._shown:
                with anyio.move_on_after(_AGAIN_SECONDS):
                    await self._news.wait()

    async def _page(self, params: types.ElicitRequestURLParams) -> Answer:
        url, message = params.url, one_line(params.message[:_LONGEST])
        if not _is_page(url):
            say("The server named a page that is not on the web (http or https); nothing was opened.")
            return Answer(action="cancel")
        if self._decision.verdict != "allow" and not self._yes:
            line = await self._read_line(
                f"MCP server {self._server} requests authorization: {message}\n"
                f"Host: {urlsplit(url).netloc}\n  {url}\nOpen it in your browser? [y/N] "
            )
            if line is None:
                say("MCP URL elicitation received in headless context; cancelling. The page would have been:")
                say(f"  {url}")
                return Answer(action="cancel")
            if line.strip().lower() not in {"y", "yes"}:
                return Answer(action="decline")
        try:
            await self._show(url, f"MCP server {self._server} requests authorization: {message}")
        except UnsafeUrl as error:
            say(str(error))
            return Answer(action="cancel")
        # It means that the user wants to, not that it is done.
        return Answer(action="accept")

    async def _form(self, params: types.ElicitRequestFormParams) -> Answer:
        schema = params.requested_schema
        properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
        required = frozenset(cast("list[str]", schema.get("required", [])))
        message = safe(params.message[:_LONGEST])
        heading = f'MCP server {self._server} asks: {message}\n(Type "{_DECLINE}" to decline.)\n'
        content: dict[str, Any] = {}
        for name, field in list(properties.items())[:_MOST_FIELDS]:
            found = await self._field(heading, name, field, is_required=name in required)
            if found is None:
                return Answer(action="decline")
            if found is _NOBODY:
                say("MCP elicitation request received in non-interactive context; cancelling.")
                return Answer(action="cancel")
            if found is not _NOTHING:
                content[name] = found
            heading = ""
        return Answer(action="accept", content=content)

    async def _field(self, heading: str, name: str, field: Mapping[str, Any], *, is_required: bool) -> Any:  # noqa: ANN401 - any JSON
        """Return the value that the user gives to a field; None if the user declines."""
        prompt = heading + _prompt(name, field, is_required=is_required)
        for _ in range(_MOST_TRIES):
            line = await self._read_line(prompt)
            if line is None:
                return _NOBODY
            text = line.strip()
            if text.lower() == _DECLINE:
                return None
            try:
                return read_value(text, field, is_required=is_required)
            except ValueError as error:
                say(f"  {error}")
            prompt = _prompt(name, field, is_required=is_required)
        raise ElicitationFailed(f'MCP elicitation error: "{one_line(name)}" has no value that fits its form.')


#: The user leaves a field out; no user can answer.
_NOTHING: Final = object()
_NOBODY: Final = object()


def _prompt(name: str, field: Mapping[str, Any], *, is_required: bool) -> str:
    title = one_line(str(field.get("title", name))[:_LONGEST])
    about = one_line(str(field.get("description", ""))[:_LONGEST])
    choices = _choices(field)
    parts = [about, " | ".join(one_line(choice) for choice in choices), "" if is_required else "may be empty"]
    hint = "; ".join(part for part in parts if part)
    usual = f" [{one_line(json.dumps(field['default'], ensure_ascii=False))}]" if "default" in field else ""
    return f"{title}{f' ({hint})' if hint else ''}{usual}: "


def _choices(field: Mapping[str, Any]) -> list[str]:
    items = cast("Mapping[str, Any]", field.get("items", {})) if field.get("type") == "array" else field
    if "enum" in items:
        return [str(one) for one in items["enum"]]
    return [str(one.get("const")) for one in items.get("oneOf", items.get("anyOf", []))]


def read_value(text: str, field: Mapping[str, Any], *, is_required: bool) -> Any:  # noqa: ANN401 - any JSON
    """Read a line by the schema of its field.

    Raises:
        ValueError: It does not fit; the text says what would.
    """
    # The SDK depends on it; its import is slow.
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - only where a form is filled in
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - as above

    if not text:
        if "default" in field:
            return field["default"]
        if is_required:
            raise ValueError("A value is required.")
        return _NOTHING
    value = _parsed(text, str(field.get("type", "string")))
    try:
        fault = SchemaCheck(field, formats=True).fault(value)
    except (SchemaError, Unresolvable):
        raise ElicitationFailed("MCP elicitation error: the form of the server is not valid.") from None
    if fault is not None:
        raise ValueError(one_line(fault[:_LONGEST]))
    return value


def _parsed(text: str, kind: str) -> Any:  # noqa: ANN401 - any JSON
    match kind:
        case "boolean":
            words = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
            if text.lower() not in words:
                raise ValueError("Answer yes or no.")
            return words[text.lower()]
        case "integer" | "number":
            try:
                value = int(text) if kind == "integer" else float(text)
            except ValueError:
                raise ValueError(f"Write a number ({kind}).") from None
            if not math.isfinite(value):
                raise ValueError(f"Write a number ({kind}).")
            return value
        case "array":
            return [part.strip() for part in text.split(",")]
        case _:
            return text


def _is_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable() and " " not in url


async def read_terminal_line(prompt: str) -> str | None:
    """Ask at the terminal; None where there is none, or it is closed."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    typer.echo(prompt, err=True, nl=False)
    line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return line or None

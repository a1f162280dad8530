"""Logs go to stderr, one line each, and hold no secret.

stdout belongs to MCP over stdio. Modules log through the standard library; structlog renders, and is
loaded with the first line that is written, because nothing is logged in a good start.
"""

import logging
import re
import sys
import warnings
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, TextIO, cast

from stamina.instrumentation import LoggingOnRetryHook, set_on_retry_hooks

#: Names the request that a line belongs to, and that a problem page shows.
request_id: ContextVar[str] = ContextVar("request_id", default="")

_OURS = "nextcloud_mcp_server"
_HIDDEN = "[hidden]"
_SECRET_KEY = re.compile(
    r"(^|_|-)(authorization|cookie|password|passwd|secret|token|key|code|credential|login_url"
    r"|verifier|nonce|assertion)s?$",
    re.IGNORECASE,
)
#: Each pattern takes time in proportion to the text: what follows a place where it may begin ends at the next such
#: place, so that no character of a hostile line is read once for each of them.
_SECRET_TEXT = (
    # All of a cookie header: it may hold several, each of which is a session.
    (re.compile(r"(?i)\b((?:set-)?cookie['\"]?\s*[:=]\s*['\"]?)[^'\"\r\n]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(__Host-(?:(?!__Host-)[\w.-])+=)[^\s;,'\"]+"), rf"\1{_HIDDEN}"),
    # Tokens of identity providers, whole or cut off in the middle.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*"), _HIDDEN),
    # Headers, as libraries print them: `Authorization: Basic …`, `'authorization': 'Bearer …'`.
    (re.compile(r"(?i)\b(basic|bearer)(\s+)[A-Za-z0-9+/=._~-]{6,}"), rf"\1\2{_HIDDEN}"),
    # A login-flow URL alone is enough to finish the flow in a user's name.
    (re.compile(r"(?i)(/login/v2/(?:flow|grant)/?)[^\s'\"<>]*"), rf"\1{_HIDDEN}"),
    (
        re.compile(
            r"(?i)\b((?:(?:\w*(?:password|passwd|secret|token|verifier|nonce|assertion)|authorization)s?['\"]?\s*[=:]"
            r"|(?:code|state)=)\s*['\"]?)"
            r"(?!\[hidden\]|basic\b|bearer\b)[^\s'\"&,;)}\]]+"
        ),
        rf"\1{_HIDDEN}",
    ),
    # A callback inside of another address.
    (re.compile(r"(?i)(%(?:3F|26)(?:code|state)%3D)[^%&\s'\"]+"), rf"\1{_HIDDEN}"),
    # The same two as members of JSON or of a Python dictionary; short values are statuses and words.
    (re.compile(r"(?i)(['\"](?:code|state)['\"]\s*:\s*['\"])[^'\"\s]{12,}"), rf"\1{_HIDDEN}"),
    # Name and password in an address, of any scheme.
    (re.compile(r"(?<=[A-Za-z0-9+.-])://[^/\s@]+@"), f"://{_HIDDEN}@"),
    # The form in which Nextcloud shows app passwords.
    (re.compile(r"\b[A-Za-z0-9]{5}(?:-[A-Za-z0-9]{5}){4}\b"), _HIDDEN),
    # Random text in base64url: session ids, states, sealed values. Names and words lack digits or capitals.
    (re.compile(r"(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?=[\w-]*\d)[A-Za-z0-9_-]{40,}(?![\w-])"), _HIDDEN),
    # App passwords of Login Flow v2 (72 characters), poll tokens (128) and anything as long.
    (re.compile(r"\b[A-Za-z0-9]{64,}\b"), _HIDDEN),
)
#: Controls, line and paragraph separators, and marks that reorder text in a terminal.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def set_up(
    level: str = "info", *, stream: TextIO | None = None, reword: Callable[[str], str] | None = None
) -> None:
    """Send our own lines from `level` on, and warnings of libraries, to stderr.

    `reword` changes the text of our own lines.
    Libraries stay at warnings even at `debug`: they would print headers, queries and note texts.
    """
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(_LazyFormatter(readable=target.isatty()))
    if reword is not None:
        handler.addFilter(_Reworded(reword))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel("ERROR" if level == "error" else "WARNING")
    logging.getLogger(_OURS).setLevel(level.upper())
    # Where structlog is installed, stamina would print to stdout, which is MCP's. The last error of a request that was
    # repeated is one sentence; the repetitions are for who looks for the reason.
    set_on_retry_hooks([LoggingOnRetryHook] if level == "debug" else [])
    if not sys.warnoptions:
        warnings.simplefilter("default")
    logging.captureWarnings(capture=True)


def redact(text: str) -> str:
    """Hide what looks like a secret in a text."""
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def one_line(text: str) -> str:
    """Write control characters as escapes, so that a text cannot pose as another log line."""
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


class _Reworded(logging.Filter):
    def __init__(self, reword: Callable[[str], str]) -> None:
        super().__init__(_OURS)
        self._reword = reword

    def filter(self, record: logging.LogRecord) -> bool:
        if super().filter(record):
            record.msg, record.args = self._reword(record.getMessage()), None
        return True


class _LazyFormatter(logging.Formatter):
    """Build the real formatter when there is something to format."""

    def __init__(self, *, readable: bool) -> None:
        super().__init__()
        self._readable = readable
        self._real: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        """Format one record as one line (a trace follows, indented, where a user reads)."""
        if self._real is None:
            self._real = _formatter(readable=self._readable)
        return self._real.format(record)


def _formatter(*, readable: bool) -> logging.Formatter:
    # 0.14 s on top of the SDK: kept out of the way to the first answer.
    import structlog  # noqa: PLC0415  # see above

    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)
        if readable
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _clean,
            renderer,
        ],
    )


def _clean(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the request id, hide secrets, and keep everything on its line."""
    if current := request_id.get():
        event["request_id"] = current
    return {key: _cleaned(key, value) for key, value in event.items()}


def _cleaned(key: str, value: object) -> object:
    if _SECRET_KEY.search(key):
        return _HIDDEN
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return {str(name): _cleaned(str(name), member) for name, member in members.items()}
    if isinstance(value, bool | int | float | None):
        return value
    text = redact(str(value))
    if key == "exception":
        return "\n".join(f"    | {one_line(line)}" for line in text.splitlines())
    return one_line(text)

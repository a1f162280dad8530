"""Logs go to stderr, one line each, and hold no secret.

stdout belongs to MCP over stdio. Modules log through the standard library: what they pass as `extra` becomes fields.
"""

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, TextIO, cast
from uuid import uuid4

from nextcloud_mcp_server.error_root import NextcloudMcpError

#: Names the request that a line belongs to. The audit and error messages name it too.
request_id: ContextVar[str] = ContextVar("request_id", default="")

#: `auto` is text at a terminal, else JSON.
Form = Literal["auto", "json", "text"]

_OURS: Final = "nextcloud_mcp_server"
#: What every record has; the rest is what the caller passed as `extra`.
_RECORD: Final = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime"})
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
#: Most values: words too short for any of the patterns, without a character that they need. `eyJ` begins a token.
_WORD = re.compile(r"(?!.*eyJ)[A-Za-z0-9_.-]{1,28}")
#: Controls, line and paragraph separators, and marks that reorder text in a terminal.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def set_up(
    level: str = "info",
    form: Form = "auto",
    *,
    stream: TextIO | None = None,
    reword: Callable[[str], str] | None = None,
) -> bool:
    """Send our own lines from `level` on, and warnings of libraries, to stderr.

    `form` is `json`, `text`, or `auto`: text at a terminal, else JSON. `reword` changes the text of our own lines.
    Libraries stay at warnings even at `debug`: they would print headers, queries and note texts. The answer is whether
    the lines are text: between lines of JSON nothing else may stand.
    """
    target = stream or sys.stderr
    readable = target.isatty() if form == "auto" else form == "text"
    handler = logging.StreamHandler(target)
    handler.setFormatter(_TextFormatter() if readable else _JsonFormatter())
    handler.addFilter(_Explained())
    if reword is not None:
        handler.addFilter(_Reworded(reword))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel("ERROR" if level == "error" else "WARNING")
    logging.getLogger(_OURS).setLevel(level.upper())
    if not sys.warnoptions:
        warnings.simplefilter("default")
    logging.captureWarnings(capture=True)
    return readable


def new_request_id() -> str:
    """Return an id for `request_id`."""
    return uuid4().hex[:12]


def current_request_id() -> str:
    """Return the id of the request that is handled now; a new one where none is."""
    return request_id.get() or new_request_id()


def redact(text: str) -> str:
    """Hide what looks like a secret in a text."""
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def one_line(text: str) -> str:
    """Write control characters as escapes, so that a text cannot pose as another log line."""
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


class _Explained(logging.Filter):
    """Replaces the trace of what was raised on purpose by its sentence: it says what is wrong, in one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, NextcloudMcpError):
            record.msg, record.args, record.exc_info = f"{record.getMessage()}: {error}", None, None
        return True


class _Reworded(logging.Filter):
    def __init__(self, reword: Callable[[str], str]) -> None:
        super().__init__(_OURS)
        self._reword = reword

    def filter(self, record: logging.LogRecord) -> bool:
        if super().filter(record):
            record.msg, record.args = self._reword(record.getMessage()), None
        return True


class _JsonFormatter(logging.Formatter):
    """One JSON object per line: `event`, the fields, `level`, `logger`, `timestamp` (ISO 8601, UTC)."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        return json.dumps(_fields(self, record), ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    """A line for a reader, `2026-01-31 09:15:00Z info  event  field=value`; a trace follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        fields = _fields(self, record)
        time = str(fields.pop("timestamp"))[:19].replace("T", " ")
        level, event = str(fields.pop("level")), str(fields.pop("event"))
        trace = fields.pop("exception", None)
        if not record.name.startswith(_OURS):
            event = f"{record.name}: {event}"
        del fields["logger"]
        parts = [
            f"{time}Z {level:<7} {event}",
            *(f"{name}={_shown(value)}" for name, value in fields.items()),
        ]
        return "\n".join(["  ".join(parts), *([] if trace is None else [str(trace)])])


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, object]:
    """Return the fields of a line: secrets are hidden, and every value is one line, but for the trace."""
    fields: dict[str, object] = {"event": record.getMessage()}
    fields |= {name: value for name, value in record.__dict__.items() if name not in _RECORD}
    if current := request_id.get():
        fields["request_id"] = current
    if record.exc_info:
        fields["exception"] = formatter.formatException(record.exc_info)
    return {name: _cleaned(name, value) for name, value in fields.items()} | {
        "level": record.levelname.lower(),
        "logger": record.name,
        "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
    }


def _shown(value: object) -> str:
    """Return a value as text; with quotes where a space would hide its end."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # `\s` also finds spaces of other scripts, which look the same.
    return json.dumps(text, ensure_ascii=False) if not text or re.search(r"\s", text) else text


@lru_cache(maxsize=256)
def _is_secret(name: str) -> bool:
    return _SECRET_KEY.search(name) is not None


def _cleaned(name: str, value: object) -> object:
    if _is_secret(name):
        return _HIDDEN
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        return {str(key): _cleaned(str(key), member) for key, member in members.items()}
    if isinstance(value, bool | int | float | None):
        return value
    text = str(value)
    if _WORD.fullmatch(text):
        return text
    text = redact(text)
    if name == "exception":
        return "\n".join(f"    | {one_line(line)}" for line in text.splitlines())
    return one_line(text)

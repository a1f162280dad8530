"""Known client names, the hosts they belong to, and the detection of names that imitate them.

Any client may call itself anything. `look_alikes` tells whether a name looks like a known one.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from nextcloud_mcp_server.auth import look_alikes
from nextcloud_mcp_server.formats import normal_form
from nextcloud_mcp_server.nextcloud.sanitize import meant, without_hidden


@dataclass(frozen=True, slots=True)
class _Known:
    """A known name, and its places: hosts with all their subdomains, and schemes of its programs."""

    name: str
    places: tuple[str, ...]


_ANTHROPIC = ("claude.ai", "claude.com", "anthropic.com", "claude:")
_OPENAI = ("chatgpt.com", "openai.com", "chatgpt:", "codex:")
_MICROSOFT = (
    "vscode.dev",
    "code.visualstudio.com",
    "microsoft.com",
    "github.com",
    "vscode:",
    "vscode-insiders:",
)
_GOOGLE = ("google.com", "gemini:")
_KNOWN = (
    _Known("Claude", _ANTHROPIC),
    _Known("Anthropic", _ANTHROPIC),
    _Known("ChatGPT", _OPENAI),
    _Known("OpenAI", _OPENAI),
    _Known("Codex", _OPENAI),
    _Known("Cursor", ("cursor.com", "cursor.sh", "cursor:")),
    _Known("VS Code", _MICROSOFT),
    _Known("Visual Studio", _MICROSOFT),
    _Known("Copilot", _MICROSOFT),
    _Known("Gemini", _GOOGLE),
    _Known("Mistral", ("mistral.ai",)),
    _Known("Le Chat", ("mistral.ai",)),
    _Known("Perplexity", ("perplexity.ai",)),
    _Known("Windsurf", ("windsurf.com", "codeium.com", "windsurf:")),
    _Known("LibreChat", ("librechat.ai",)),
    _Known("Nextcloud", ("nextcloud.com",)),
)

_GAPS = re.compile(r"[\s_.-]+")


#: Hosts of a known client's owner where anyone may publish a page or a program.
_OF_EVERYONE = (
    *("script.google.com", "sites.google.com", "docs.google.com", "drive.google.com"),
    *("storage.cloud.google.com", "gist.github.com", "raw.github.com", "forms.microsoft.com"),
)


@lru_cache(maxsize=4_096)
def imitated(name: str, place: str | None) -> str | None:
    """Return the known client that a name equals or imitates, unless `place` is one of that client's.

    `place` is the host or scheme (with its colon) that is known of the client. It is None if only an id or a
    program on the user's computer is known: there an ordinary spelling proves nothing, and only look-alike
    letters count as an imitation.

    The answers are cached: a name of signs that stand for whole phrases takes a quarter of a second, and anyone can
    open the page that shows it again and again.
    """
    plain, seen = _plain(name), without_hidden(meant(name))
    for known in _KNOWN:
        if any(_belongs(place, one) for one in known.places) or not look_alikes.contains(seen, known.name):
            continue
        if place is not None or _plain(known.name) not in plain:
            return known.name
    return None


def _belongs(place: str | None, known: str) -> bool:
    if place is None or place in _OF_EVERYONE:
        return False
    return place == known or (":" not in known and place.endswith(f".{known}"))


def _plain(name: str) -> str:
    # Drops only ordinary separators between words: a combining dot or a zero-width gap is never written by
    # accident.
    return _GAPS.sub("", normal_form.normalised("NFC", meant(name)).casefold())

"""Renders the pages: one template each, sentences from the catalogue, every name escaped.

jinja2 takes start-up time that no MCP client should have to wait for, so it is loaded with the first page.
"""

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.nextcloud.program import PROGRAM
from nextcloud_mcp_server.nextcloud.sanitize import without_hidden
from nextcloud_mcp_server.web.cloud import shown_cloud
from nextcloud_mcp_server.web.messages import catalogue, english, language_of
from nextcloud_mcp_server.web.root_path import rooted

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_PACKAGE = "nextcloud_mcp_server.web"
_LONGEST_NAME = 64
# So many marks on one letter are none of a word, but a picture over the lines around it (UTS #39, 5.4).
_MOST_MARKS = 4
# The characters that fit one line of a heading on a phone.
_PHONE_LINE = 26


@dataclass(frozen=True, slots=True)
class Name:
    """A name that a client or user chose: cleaned, cut, and isolated from the text around it.

    Without that, a client called "\u202egpj.live" or a name of ten lines could change the meaning of the page.
    """

    plain: str
    dotted: bool = False

    @classmethod
    def of(cls, text: str) -> "Name":
        """Clean a name: no control or formatting characters, one line, at most 64 characters."""
        words = _clean(text)
        return cls(words if len(words) <= _LONGEST_NAME else f"{words[: _LONGEST_NAME - 1].rstrip()}…")

    @classmethod
    def of_host(cls, text: str) -> "Name":
        """Clean the name of a server; one too long for a phone may break after each of its dots.

        A name is cut at its beginning: the owner of a domain chooses what stands before it.
        """
        words = _clean(text)
        plain = words if len(words) <= _LONGEST_NAME else f"…{words[1 - _LONGEST_NAME :]}"
        return cls(plain, dotted=len(plain) > _PHONE_LINE)

    @property
    def initial(self) -> str:
        """The first letter, for the round picture beside a name."""
        return self.plain[:1].upper()

    def __bool__(self) -> bool:
        return bool(self.plain)

    def __html__(self) -> str:
        from markupsafe import Markup  # noqa: PLC0415 - loaded with jinja2, at the first page

        parts = self.plain.split(".") if self.dotted else [self.plain]
        return Markup("<bdi>{}</bdi>").format(Markup(".<wbr>").join(parts))


def _clean(text: str) -> str:
    spaced = "".join(" " if char.isspace() else char for char in text if char.isspace() or _shows(char))
    seen = "".join(_with_few_marks(without_hidden(spaced)))
    return " ".join(seen.split())


def _with_few_marks(text: str) -> Iterator[str]:
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char) in {"Mn", "Me"} else 0
        if marks <= _MOST_MARKS:
            yield char


def _shows(char: str) -> bool:
    return unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn"}


@dataclass(frozen=True, slots=True)
class CloudLine:
    """The line that says at which Nextcloud the user is: what it calls itself, its logo, and the host as the proof."""

    name: Name
    host: Name
    color: str
    logo: str


def _cloud() -> CloudLine | None:
    cloud = shown_cloud()
    if cloud is None:
        return None
    name = Name.of(cloud.name) or Name("Nextcloud")
    return CloudLine(name, Name.of_host(cloud.host), cloud.color, cloud.path and rooted(cloud.path))


def page(
    request_headers: Headers,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: object,
) -> HTMLResponse:
    """Render a page in the language that the browser prefers."""
    language = language_of(request_headers.get("accept-language"))
    frame = {
        "language": language,
        "t": _sentences(language),
        "rooted": rooted,
        "program": PROGRAM,
        "stylesheet": rooted(f"/static/{stylesheet()[0]}"),
        "cloud": _cloud(),
    }
    body = _environment().get_template(template).render(frame, **values)
    return HTMLResponse(body, status, {**(headers or {}), "Content-Language": language})


def time_left(seconds: int) -> tuple[str, int]:
    """Choose the sentence for a remaining time, and its number of minutes."""
    minutes = -(-seconds // 60)
    if seconds < 60:  # noqa: PLR2004 - seconds of a minute
        return "waiting.moments", 0
    return "waiting.minutes", minutes


def in_order(scopes: Iterable[str]) -> list[str]:
    """Return scopes in the order of the pages, which is that of `SCOPES`."""
    wanted = frozenset(scopes)
    return [scope for scope in SCOPES if scope in wanted]


def says(key: str) -> bool:
    """Tell whether the catalogue has a key."""
    return key in english()


@cache
def stylesheet() -> tuple[str, bytes]:
    """Read the stylesheet, and name it by its content, so that browsers may cache it for good."""
    content = files(_PACKAGE).joinpath("static", "style.css").read_bytes()
    return f"style.{hashlib.sha256(content).hexdigest()[:16]}.css", content


@cache
def favicon() -> bytes:
    """Read the icon of this server."""
    return files(_PACKAGE).joinpath("static", "favicon.ico").read_bytes()


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - see the module's first lines

    return Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _sentences(language: str) -> "Callable[..., Markup]":
    from markupsafe import Markup  # noqa: PLC0415 - loaded with jinja2, at the first page

    say = catalogue(language).say

    def sentence(key: str, *, count: int = 1, **values: object) -> Markup:
        # The catalogue is part of this package and may hold markup; format() escapes the values.
        return Markup(say(key, count)).format(count=count, **values)  # noqa: S704 - only ours is marked

    return sentence

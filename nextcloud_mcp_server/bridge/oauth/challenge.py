"""Reads what a server asks for in `WWW-Authenticate` (RFC 9110 §11.6.1, RFC 6750 §3, RFC 9728 §5.1)."""

import re
from dataclasses import dataclass
from typing import Final

import httpx2

_LONGEST: Final = 16_000
_WORD: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PART: Final = re.compile(
    rf"""[\s,]*(?:
        (?P<name>{_WORD})\s*=(?!=)\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]*))
      | (?P<scheme>{_WORD})(?:\s+(?P<token68>[A-Za-z0-9\-._~+/]+=*)(?=\s*(?:,|$)))?
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a `Bearer` challenge says; None for what it leaves out."""

    error: str | None = None
    scope: str | None = None
    resource_metadata: str | None = None

    @property
    def wants_scopes(self) -> bool:
        """Whether the token is good, but does not cover enough."""
        return self.error == "insufficient_scope"


def bearer_challenge(response: httpx2.Response) -> Challenge:
    """Return the `Bearer` challenge of a response; an empty one where there is none."""
    for header in response.headers.get_list("WWW-Authenticate"):
        found = _bearer_parameters(header[:_LONGEST])
        if found is not None:
            return Challenge(found.get("error"), found.get("scope"), found.get("resource_metadata"))
    return Challenge()


def _bearer_parameters(header: str) -> dict[str, str] | None:
    """Return the parameters after `Bearer`, up to the next scheme."""
    found: dict[str, str] | None = None
    place = 0
    while match := _PART.match(header, place):
        place = match.end()
        if (scheme := match["scheme"]) is not None:
            if found is not None:
                break
            found = {} if scheme.lower() == "bearer" else None
        elif found is not None:
            value = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
            found.setdefault(match["name"].lower(), value)
    return found

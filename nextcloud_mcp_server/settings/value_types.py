"""The types of the fields, and the traits from which the lists of their names are derived."""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated

from pydantic import BeforeValidator, SecretStr
from pydantic_core import PydanticCustomError


def _words(value: object) -> object:
    """Split a comma-separated text; return any other value unchanged."""
    if isinstance(value, str):
        return tuple(word for word in value.replace(",", " ").split() if word)
    return value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


#: An address of this computer without a scheme; only such an address is completed with `http`.
_HERE = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/.*)?")

#: A scheme whose colon or slash was left out or typed twice, as in `https//cloud.example.org`.
_SLIPPED = re.compile(r"^(https?)(?::/{1,3}|//)(?=[^/])")


def _with_scheme(value: object) -> object:
    """Complete `cloud.example.org` to `https://cloud.example.org`, and `https:/cloud.example.org` likewise."""
    if isinstance(value, str):
        value = _SLIPPED.sub(r"\1://", value.strip())
    if not isinstance(value, str) or not value.strip() or "://" in value:
        return value
    scheme = "http" if _HERE.fullmatch(value.strip()) else "https"
    return f"{scheme}://{value.strip()}"


#: What is behind the address of a Nextcloud in a browser; a Nextcloud may lie in `/apps/nextcloud`, though.
_PAGE = re.compile(
    r"/(?:(?:index|status|remote|public)\.php|ocs|login|settings|dashboard"
    r"|apps/(?!(?:next|own)?cloud(?:/|$))[a-z][a-z0-9_]*|s/[A-Za-z0-9]{15,}|f/[0-9]+|call/[a-z0-9]+)(?:[/?#].*)?$"
)


def _without_page(value: object) -> object:
    """Reduce the address of a page to that of its Nextcloud: `https://cloud.example.org/apps/files/?dir=/`."""
    if not isinstance(value, str):
        return value
    scheme, separator, rest = value.strip().partition("://")
    return f"{scheme}{separator}{_PAGE.sub('', rest)}" if separator else value


def _not_of_kubernetes(value: object) -> object:
    if isinstance(value, str) and value.strip().startswith(("tcp://", "udp://")):
        raise PydanticCustomError(
            "service_link",
            "it holds the address of a Service, which Kubernetes puts there for one named nextcloud-mcp: write "
            "enableServiceLinks: false into the pod's spec, or give the Service another name",
        )
    return value


#: A port whose variable Kubernetes may set for a Service (kubernetes.io/docs/concepts/services-networking/service).
Port = Annotated[int, BeforeValidator(_not_of_kubernetes)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Secrets = Annotated[tuple[SecretStr, ...], BeforeValidator(_words)]
#: For a choice of words, which may be written in capitals.
Lower = BeforeValidator(_lower)
#: An address of Nextcloud, of which a user may have copied a page.
Nextcloud = BeforeValidator(_without_page)
#: An address of Nextcloud as a user types it, with or without a scheme.
Typed = Annotated[str, Nextcloud, BeforeValidator(_with_scheme)]


class Trait(Enum):
    """A property of a field that its type does not show, written into its annotation."""

    #: Also read from the file that `<NAME>_FILE` names, although it is no `SecretStr`.
    FROM_FILE = auto()
    #: A web address.
    ADDRESS = auto()
    #: Set by an option of a command, not by a variable.
    OPTION = auto()
    #: Limits what can be done, so that ignoring a misspelt variable would allow more than the operator meant.
    LIMIT = auto()
    #: Left out of a client's configuration: its entry names it by an option, or it has no effect over stdio.
    NOT_CARRIED = auto()


@dataclass(frozen=True, slots=True)
class Variable:
    """The name of a field's variable, where it is not the field in capitals."""

    name: str

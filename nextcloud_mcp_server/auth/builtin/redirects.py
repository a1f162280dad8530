r"""Redirect URIs: which may be registered, and which match a registered one.

A redirect URI is kept as the string it came as. It is parsed by one strict grammar (RFC 3986, without rarely
used parts). Where two parsers differ, as over `http://evil.test\@127.0.0.1/`, the check and the browser would
otherwise see different hosts.
"""

import re
from collections.abc import Collection, Iterable

_LONGEST = 1000
_LAST_PORT = 65_535
_HTTP = "http"

#: RFC 8252 §7.3 and §8.3, in the forms clients register.
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})

#: Private-use schemes that are accepted without a setting: of applications that support nothing else.
PRIVATE_SCHEMES = frozenset({"cursor"})

#: Schemes that would execute, display, store or mail a code, even if the operator allowed them.
# fmt: off
_NEVER = frozenset(
    {
        "about", "android-app", "blob", "chrome", "chrome-extension", "data", "facetime", "file",
        "filesystem", "ftp", "ftps", "git", "http", "https", "intent", "itms", "itms-services", "jar",
        "javascript", "mailto", "moz-extension", "resource", "search-ms", "sftp", "skype", "sms", "ssh",
        "tel", "urn", "vbscript", "view-source", "ws", "wss", "x-apple.systempreferences",
    }
)
# fmt: on

_CHARACTERS = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})"
_QUERY = rf"(?P<query>\?(?:{_CHARACTERS}|\?)*)?"
_WEB = re.compile(
    r"(?P<scheme>https?)://(?P<host>(?:[A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+\.?|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    rf"(?P<path>/{_CHARACTERS}*)?{_QUERY}"
)
_PRIVATE = re.compile(rf"(?P<scheme>[a-z][a-z0-9+.-]*):(?P<path>{_CHARACTERS}+){_QUERY}")
_AUTHORITY = re.compile(r"//[^/?]*@")


def acceptable(
    uri: str, *, private_schemes: Collection[str], plain_hosts: Collection[str] = frozenset()
) -> bool:
    """Tell whether a redirect URI may be registered (RFC 6749 §3.1.2, RFC 8252 §7, OAuth 2.1 §2.3.1).

    Accepted are https, http on this computer or on one of the operator's `plain_hosts`, and the operator's
    private-use schemes; without fragment or user name, and never an unsafe scheme.
    """
    if len(uri) > _LONGEST:
        return False
    web = _WEB.fullmatch(uri)
    if web is not None:
        return _is_port(web["port"]) and (
            web["scheme"] != _HTTP or web["host"] in LOOPBACK_HOSTS or web["host"] in plain_hosts
        )
    private = _PRIVATE.fullmatch(uri)
    if private is None or _AUTHORITY.match(private["path"]):
        return False
    scheme = private["scheme"]
    return scheme in private_schemes and scheme not in _NEVER and not scheme.startswith("ms-")


def matches(registered: str, given: str) -> bool:
    """Tell whether a redirect URI is the registered one (RFC 6749 §3.1.2.3): the same string.

    Two differences are ignored: the port on this computer, which a client learns only when it starts to listen
    (RFC 8252 §7.3), and an empty path, which equals `/` (RFC 3986 §6.2.3).
    """
    if registered == given:
        return True
    ours, theirs = _WEB.fullmatch(registered), _WEB.fullmatch(given)
    if ours is None or theirs is None or len(given) > _LONGEST:
        return False
    any_port = ours["scheme"] == _HTTP and ours["host"] in LOOPBACK_HOSTS and _is_port(theirs["port"])
    return _place(ours) == _place(theirs) and (any_port or ours["port"] == theirs["port"])


def any_matches(registered: Iterable[str], given: str) -> bool:
    """Tell whether a redirect URI matches one of those registered."""
    return any(matches(one, given) for one in registered)


def is_loopback(uri: str) -> bool:
    """Tell whether a redirect URI leads to a port on the user's own computer."""
    web = _WEB.fullmatch(uri)
    return web is not None and web["host"] in LOOPBACK_HOSTS


def is_native(uri: str) -> bool:
    """Tell whether a redirect URI leads to an application on the user's computer, not to a server."""
    return is_loopback(uri) or _WEB.fullmatch(uri) is None


def shown(uri: str) -> str:
    """Return the place of a redirect URI for the user: its host, or its scheme such as `cursor:`.

    A host has one spelling here: a capital I could be taken for a small l, and a list of hosts must hold for
    `EVIL.example` and `evil.example.` too.
    """
    web = _WEB.fullmatch(uri)
    return f"{uri.partition(':')[0]}:" if web is None else web["host"].lower().removesuffix(".")


def _is_port(port: str | None) -> bool:
    return port is None or 0 < int(port) <= _LAST_PORT


def _place(web: re.Match[str]) -> tuple[str, str, str, str | None]:
    return web["scheme"], web["host"], web["path"] or "/", web["query"]

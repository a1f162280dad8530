"""Reads the names of a link's parameters as the most lenient servers do.

| reader | what it takes for `client_id` |
|---|---|
| PHP (`parse_str`) | `client.id`, `client id`, `client[id`, `client_id[]`, spaces before the name, anything after NUL |
| Node (`qs`) | `[client_id]`, `client_id[]` |
| Ruby (Rack), Perl (CGI), older Python | a `;` where others need `&`; Rack also skips spaces before a name |
| ASP.NET | any letter case; classic ASP reads `%u005f` |
| Java (Tomcat), Go | nothing but the name itself |

All of them decode `+` and `%XX`. A script may read what follows `#`, and a path may have parameters after `;`.
"""

import re
from typing import Final

_SEPARATORS: Final = re.compile("[?&;#]")
_BRACKETS: Final = re.compile(r"[^\[\]]+")
#: Of `unescape` in JavaScript, which classic ASP and ASP.NET read as well.
_WIDE: Final = re.compile("%u([0-9a-f]{4})")
#: What PHP writes as `_`.
_UNDERSCORES: Final = str.maketrans(" .[", "___")


def read(link: str) -> set[str]:
    """Return the parameters of a link whose `%XX` are decoded, in small letters: every name that some server reads.

    What comes before the first separator is no parameter, and neither is a name without `=`.
    """
    names: set[str] = set()
    for part in _SEPARATORS.split(link.lower())[1:]:
        name, equals, _ = part.partition("=")
        if equals:
            names |= _readings(_WIDE.sub(_decoded, name))
    return names


def _readings(name: str) -> set[str]:
    plain = name.partition("\0")[0].replace("+", " ").strip()
    outer = _BRACKETS.search(plain)
    forms = (plain, "" if outer is None else outer[0])
    return {form.translate(_UNDERSCORES) for form in forms}


def _decoded(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))

"""The names of the variables, derived from the fields, and suggestions for a misspelt one."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings import earlier_names
from nextcloud_mcp_server.settings.fields import Fields
from nextcloud_mcp_server.settings.multi_user import BuiltinFields, MultiUserFields, OidcFields
from nextcloud_mcp_server.settings.value_types import Trait, Variable


def _of_type(kind: type) -> frozenset[str]:
    """Return the fields whose values are of a type, or hold values of it."""

    def holds(annotation: object) -> bool:
        return annotation is kind or any(map(holds, get_args(annotation)))

    return frozenset(name for name, field in Fields.model_fields.items() if holds(field.annotation))


def _with(trait: Trait) -> frozenset[str]:
    return frozenset(name for name, field in Fields.model_fields.items() if trait in field.metadata)


#: Fields that a command's options set, and nothing else.
OPTIONS = _with(Trait.OPTION)
#: Every field that a variable can set, in the order of the documentation.
FIELDS = tuple(name for name in Fields.model_fields if name not in OPTIONS)
#: Fields that can also be read from the file that `<NAME>_FILE` names.
FROM_FILE = _of_type(SecretStr) | _with(Trait.FROM_FILE)
#: Fields that hold a path; a relative one counts from the folder in which the server was started.
PATHS = _of_type(Path)
#: Fields that hold a web address.
ADDRESSES = tuple(name for name in FIELDS if name in _with(Trait.ADDRESS))
#: Fields that are left out of the entry that starts this server in a client's configuration.
NOT_CARRIED = _with(Trait.NOT_CARRIED)
#: Fields that limit what can be done.
LIMITS = _with(Trait.LIMIT)
#: Fields that have an effect in both multi-user modes, with `MODE=oidc`, and with `MODE=builtin`.
BOTH_MODES = tuple(MultiUserFields.model_fields)
OIDC = tuple(OidcFields.model_fields)
BUILTIN = tuple(BuiltinFields.model_fields)
#: Fields that have no effect in single-user mode.
MULTI_USER = (*BOTH_MODES, *OIDC, *BUILTIN)

#: Claims whose value a user may change, or an administrator give to another one (OpenID Connect Core §5.7).
MUTABLE_CLAIMS = frozenset(
    {"email", "preferred_username", "username", "nickname", "name", "upn", "phone_number"}
)
#: How names begin that belong to this server alone.
PREFIXES = ("NEXTCLOUD_", "OIDC_", "ELICITATION_", "INTROSPECTION_", "TOKEN_")
#: The prefixes of variables for the tests against a real Nextcloud, and for the client of other servers.
_OTHER_PREFIXES = ("NEXTCLOUD_TEST_", "NEXTCLOUD_MCP_CLIENT_")
#: A name without such a prefix belongs to another program, unless it is this similar to one of this server.
_NEAR_MISS = 0.85
_SHORTEST_NEAR_MISS = 7
#: What operators put before a name of ours, without its underscores.
_OWN_PREFIXES = ("NEXTCLOUD", "MCP")
_MODE = "MODE"
#: No other program has a variable with such a value and nearly this name.
_MULTI_USER_MODES = frozenset({"oidc", "builtin"})
#: What a variable holds that limits nothing.
_NO_LIMIT = frozenset({"", "0", "false", "no", "off", "none"})


def env_name(field: str) -> str:
    """Return the variable that sets a field, or the option."""
    if field in OPTIONS:
        return "--" + field.replace("_", "-")
    metadata = Fields.model_fields[field].metadata if field in Fields.model_fields else []
    return next((one.name for one in metadata if isinstance(one, Variable)), field.upper())


def known_variables() -> list[str]:
    """Return all variables that are read, with their `_FILE` forms."""
    names = [env_name(field) for field in FIELDS]
    return [*names, *(f"{env_name(field)}_FILE" for field in FIELDS if field in FROM_FILE)]


def read_text(environ: Mapping[str, str], field: str) -> str | None:
    """Return the text of a field; an empty variable counts as not set.

    Raises:
        ConfigurationError: Two variables contradict each other, or the file cannot be read.
    """
    if field in OPTIONS:
        return None
    name = env_name(field)
    text = environ.get(name) or None
    if field == "nextcloud_host":
        other = environ.get("NEXTCLOUD_URL") or None
        if text and other and text != other:
            raise ConfigurationError(
                "NEXTCLOUD_HOST and NEXTCLOUD_URL name different servers: keep NEXTCLOUD_HOST alone."
            )
        return text or other
    file = environ.get(f"{name}_FILE") or None if field in FROM_FILE else None
    if file is None:
        return text
    if text is not None:
        raise ConfigurationError(f"{name} and {name}_FILE are both set: keep one of them.")
    return _read_file(f"{name}_FILE", Path(file))


def _read_file(name: str, path: Path) -> str:
    # The message does not contain the path: the operator may have put the secret itself there.
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        writer = (
            "'nextcloud-mcp-server setup nextcloud --into' its folder writes it"
            if name.startswith("NEXTCLOUD_OAUTH_CLIENT")
            else "check the path"
        )
        raise ConfigurationError(f"{name} names a file that does not exist: {writer}.") from None
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(
            f"{name} names a file that cannot be read as text: check path and rights."
        ) from None
    if not text:
        raise ConfigurationError(
            f"{name} names a file that is empty: the command that should write it has failed, so run it again."
        )
    return text


def closest(name: str) -> str:
    """Return a suggestion for a misspelt name as the end of a sentence, or an empty text."""
    matches = get_close_matches(name, known_variables(), n=1, cutoff=0.6)
    return f": did you mean {matches[0]}?" if matches else ""


def similar(word: str, words: Iterable[str]) -> str:
    """Return a suggestion for an unknown word as the end of a sentence."""
    matches = get_close_matches(word, list(words), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else "."


def explain(error: ValidationError) -> list[str]:
    """Return sentences about what is wrong with the settings, without their values."""
    sentences: list[str] = []
    for problem in error.errors(include_input=False, include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        if problem["type"] == "extra_forbidden":
            sentences.append(f"There is no setting {env_name(name)}{closest(env_name(name))}.")
        else:
            sentences.append(f"Invalid {env_name(name)}: {_wanted(problem)}.")
    return sentences


def _wanted(problem: ErrorDetails) -> str:
    """Return what a value should be, in an operator's words instead of pydantic's."""
    match problem["type"], problem.get("ctx", {}):
        case "bool_parsing", _:
            return "use true or false"
        case "int_parsing", _:
            return "use a whole number"
        case "greater_than_equal", {"ge": least}:
            return f"use {least} or more"
        case "less_than_equal", {"le": most}:
            return f"use {most} or less"
        case "literal_error", {"expected": choices}:
            return f"use {str(choices).replace(chr(39), '')}"
        case _:
            return f"{problem['msg'][:1].lower()}{problem['msg'][1:]}"


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that looks like one of this server and is not read."""
    known = set(known_variables())
    refused = _lost_limits(environ)
    return [sentence for name in sorted(environ) if name not in refused for sentence in _about(name, known)]


def lost_limits(environ: Mapping[str, str]) -> list[str]:
    """Return an error for each variable that was meant to limit what can be done, and is not read.

    `READONLY=true` would be a server that changes things, `MOD=builtin` one that acts as a single user for every
    client. Other misspelt variables are warnings only, since they may belong to another program.
    """
    why = {_MODE: "Without it this is a server for a single user"}
    mode = earlier_names.refused_mode(environ)
    return [
        *([mode] if mode else ()),
        *(
            f"{name} is not read; did you mean {meant}? "
            f"{why.get(meant, 'That would limit what can be done')}: rename it, or take it out."
            for name, meant in _lost_limits(environ).items()
        ),
    ]


def _lost_limits(environ: Mapping[str, str]) -> dict[str, str]:
    here = LIMITS if environ.get("MODE", "").strip().lower() == "builtin" else LIMITS.difference(BUILTIN)
    limits = {_squeezed(env_name(field)): env_name(field) for field in here}
    found: dict[str, str] = {}
    for name, text in environ.items():
        value = text.strip().lower()
        meant = _meant_limit(name, {_MODE: _MODE} if value in _MULTI_USER_MODES else limits)
        # The right variable says what was meant.
        if meant and name != meant and not environ.get(meant) and value not in _NO_LIMIT:
            found[name] = meant
    return found


def _meant_limit(name: str, limits: Mapping[str, str]) -> str | None:
    squeezed = _squeezed(name)
    for prefix in _OWN_PREFIXES:
        squeezed = squeezed.removeprefix(prefix)
    return next((limit for each, limit in limits.items() if _is_one_letter_off(squeezed, each)), None)


def _squeezed(name: str) -> str:
    return name.upper().replace("_", "").replace("-", "")


def _is_one_letter_off(name: str, known: str) -> bool:
    """Tell whether a name is the known one, or has one letter more, less, or other, or two that changed places."""
    if name == known:
        return True
    first = next((at for at, (one, other) in enumerate(zip(name, known, strict=False)) if one != other), None)
    at = min(len(name), len(known)) if first is None else first
    return (
        name[at + 1 :] == known[at:]
        or name[at:] == known[at + 1 :]
        or name[at + 1 :] == known[at + 1 :]
        or (name[at : at + 2] == known[at : at + 2][::-1] and name[at + 2 :] == known[at + 2 :])
    )


def _lacks_a_letter(name: str, known: str) -> bool:
    """Tell whether a letter is missing, or two have changed places: `MOD` is no word of other programs, `NODE` is."""
    return (
        len(name) in (len(known) - 1, len(known))
        and sorted(name)
        in (
            sorted(known),
            *(sorted(known[:at] + known[at + 1 :]) for at in range(len(known))),
        )
        and _is_one_letter_off(name, known)
    )


def _about(name: str, known: set[str]) -> Iterable[str]:
    if name in known or name.startswith(_OTHER_PREFIXES):
        return
    if name == "NEXTCLOUD_URL":
        yield "NEXTCLOUD_URL is read, but its name here is NEXTCLOUD_HOST: rename it."
    elif earlier := earlier_names.warning(name):
        yield earlier
    elif name.startswith(PREFIXES):
        yield f"{name} is not read{closest(name) or '.'}"
    elif _is_near_miss(name, known):
        yield f"{name} is not read{closest(name)}"


def _is_near_miss(name: str, known: set[str]) -> bool:
    if len(name) >= _SHORTEST_NEAR_MISS:
        return bool(get_close_matches(name, known, n=1, cutoff=_NEAR_MISS))
    return any(_lacks_a_letter(name, each) for each in known)


def mutable_identity(claim: str) -> list[str]:
    """Return a warning about a claim whose value may identify another user later."""
    if claim not in MUTABLE_CLAIMS:
        return []
    return [
        f"OIDC_IDENTITY_CLAIM={claim} can change hands: its next holder gets the former user's connection. Use sub."
    ]

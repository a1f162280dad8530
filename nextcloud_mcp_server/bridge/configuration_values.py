"""From a table in a configuration file to plain values: other names of keys, variables, and typing errors."""

import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from nextcloud_mcp_server.logs import one_line

#: What a key of a server is called elsewhere, and here.
ALIASES: Final = {
    "type": "transport",
    "executable": "command",
    "working_dir": "cwd",
    "endpoint": "url",
}
_OAUTH_MODES: Final = ("off", "auto", "manual")
#: `$${` stands for `${` itself.
_REFERENCE: Final = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<with_default>:-(?P<default>[^{}]*))?\}|\$\{"
)
_PROJECT: Final = ("PROJECT_DIR", "CLAUDE_PROJECT_DIR")
#: Whose values a table holds under names of the user's own.
_FREE_TABLES: Final = ("env", "headers")
_DEEPEST: Final = 8


def suggestion(word: str, known: Collection[str]) -> str:
    """Return a sentence part that names the known word that was meant; empty if none is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else "."


def server_values(table: object, known: Collection[str]) -> dict[str, Any]:
    """Return the values of a server by the names of its fields.

    Raises:
        ValueError: A key is unknown, given twice, or its value has another form than it must; one sentence.
    """
    if not isinstance(table, Mapping):
        raise ValueError("It must be a table of keys and values.")  # noqa: TRY004 - the caller reports a sentence
    values = _flat(dict(cast("Mapping[str, Any]", table)))
    for key in [key for key in values if key in ALIASES]:
        if ALIASES[key] in values:
            raise ValueError(f'"{key}" and "{ALIASES[key]}" are the same key: keep one.')
        values[ALIASES[key]] = values.pop(key)
    _rename_switch(values)
    _rename_oauth(values)
    for key in values:
        if key not in known:
            raise ValueError(f'Unknown key "{one_line(str(key))}"{suggestion(str(key), [*known, *ALIASES])}')
    for name in _FREE_TABLES:
        if isinstance(values.get(name), Mapping):
            values[name] = {str(key): _as_text(value) for key, value in values[name].items()}
    if isinstance(values.get("args"), list):
        values["args"] = [_as_text(value) for value in values["args"]]
    return values


def _rename_switch(values: dict[str, Any]) -> None:
    if "enabled" not in values:
        return
    if "disabled" in values:
        raise ValueError('"enabled" and "disabled" are the same switch: keep one.')
    enabled = values.pop("enabled")
    if not isinstance(enabled, bool):
        raise ValueError('"enabled" must be true or false.')  # noqa: TRY004 - the caller reports a sentence
    values["disabled"] = not enabled


def _rename_oauth(values: dict[str, Any]) -> None:
    if not isinstance(values.get("oauth"), Mapping):
        return
    if "oauth_config" in values:
        raise ValueError('"oauth" as a table and "oauth_config" are the same: keep one.')
    values["oauth_config"] = values.pop("oauth")
    values["oauth"] = "manual" if "auth_url" in values["oauth_config"] else "auto"


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Lift the keys of a nested `transport` table, as YAML has it, beside the others."""
    nested = values.get("transport", values.get("type"))
    if not isinstance(nested, Mapping):
        return values
    values.pop("transport", None)
    values.pop("type", None)
    inner = cast("Mapping[str, Any]", nested)
    if twice := [key for key in inner if key in values]:
        raise ValueError(f'"{twice[0]}" is in the server and in its transport: keep one.')
    return values | dict(inner)


def _as_text(value: object) -> object:
    """Return a number or a truth value as text: YAML and TOML read them where a variable or argument is meant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def expanded(value: Any, environment: Mapping[str, str], project: Path, *, depth: int = 0) -> Any:  # noqa: ANN401 - the tree of a file
    """Replace `${VAR}`, `${VAR:-default}` and `${PROJECT_DIR}` in every text of a tree.

    Raises:
        ValueError: A variable is not set and has no default; the text names it.
    """
    if depth > _DEEPEST:
        raise ValueError("It is nested too deeply.")
    if isinstance(value, str):
        return _expanded_text(value, environment, project)
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return {k: expanded(v, environment, project, depth=depth + 1) for k, v in members.items()}
    if isinstance(value, list):
        return [expanded(v, environment, project, depth=depth + 1) for v in cast("list[Any]", value)]
    return value


def _expanded_text(text: str, environment: Mapping[str, str], project: Path) -> str:
    def replacement(found: re.Match[str]) -> str:
        if found.group() == "$${":
            return "${"
        name = found["name"]
        if name is None:
            raise ValueError(
                '"${" without a name and a "}": write ${NAME}, ${NAME:-default}, or $${ for the signs.'
            )
        if name in _PROJECT:
            return str(project)
        set_to = environment.get(name)
        if found["with_default"] is not None:
            # As in a shell, `:-` also stands in for a variable that is set to nothing.
            return set_to or found["default"]
        if set_to is None:
            raise ValueError(
                f"The environment variable {name} is not set: set it, or write ${{{name}:-default}}."
            )
        return set_to

    return _REFERENCE.sub(replacement, text)


def first_fault(error: ValidationError, known: Collection[str]) -> str:
    """Word the first problem that pydantic found, as one sentence without the value (which may be a secret)."""
    problem = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        key = str(problem["loc"][-1])
        return f'Unknown key "{one_line(place)}"{suggestion(key, known)}'
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    if not place or problem["type"] == "value_error":
        return f"{message}."
    return f'"{one_line(place)}": {message[:1].lower()}{message[1:]}.'


def oauth_mode(value: object) -> object:
    """Return the mode of `oauth`; TOML and YAML may read `off` as a truth value."""
    return {False: "off", True: "auto"}.get(value, value) if isinstance(value, bool) else value

"""Tool arguments: the JSON schema for the model, and the strict validation of its arguments."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from nextcloud_mcp_server.errors import InvalidInput

#: Injected parameters, which the server passes to a tool body. `progress` reports progress, `documents` reads
#: documents, `local_folder` is the open folder on the user's computer.
PROGRESS, DOCUMENTS, LOCAL_FOLDER = "progress", "documents", "local_folder"
INJECTED_PARAMETERS = frozenset({PROGRESS, DOCUMENTS, LOCAL_FOLDER})

_JSON_TYPES = {
    "integer": "an integer",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}

_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not an argument of this tool",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
}


#: Arguments that hold the text of a file or a note, or a contact with its picture, of any length.
CONTENT = frozenset({"content", "new_text", "old_text", "text", "vcard"})
#: Arguments that hold a text of several pages. All others hold names, search terms or short texts.
PAGES = frozenset({"comment", "description", "ingredients", "instructions", "message", "note"})
#: Processing megabytes of a name, a query or a description would delay all other users: a calendar's lines are
#: escaped and folded.
_LONGEST = 16_384
_LONGEST_PAGES = 262_144
#: A list, or the names in an object, together are no longer than a text of several pages.
_MOST_ITEMS = 1_000
_SURROGATE = re.compile("[\ud800-\udfff]")
#: The parts that pydantic appends to the name of an argument: the validator or type that it tried.
_TRIED = re.compile(r"function|constrained|list\[|(str|int)$")


@dataclass(frozen=True, slots=True)
class Empty:
    """Declares the meaning of "" in an optional argument; without it, "" means that it was left out.

    due: Annotated[str | None, Empty("takes the date off")] = None
    """

    means: str


class Arguments:
    """The arguments of one tool, from the signature of its body after the first parameter."""

    def __init__(self, body: Callable[..., object]) -> None:
        parameters = list(inspect.signature(body, eval_str=False).parameters.values())[1:]
        fields: dict[str, Any] = {
            p.name: (p.annotation, ... if p.default is inspect.Parameter.empty else p.default)
            for p in parameters
            if p.name not in INJECTED_PARAMETERS
        }
        config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)
        self._model: type[BaseModel] = create_model("Arguments", __config__=config, **fields)
        self._keeps_empty = frozenset(self.meaningful_when_empty)
        self.schema = _slim(self._model.model_json_schema())

    def validate(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Validate the arguments of a call.

        Several frameworks send "" for an argument that the model leaves out, and OpenAI's strict mode sends null.
        Where neither has a meaning, the default is used.

        Raises:
          InvalidInput: One sentence names the error and lists the existing arguments.
        """
        for name, value in given.items():
            _refuse_unusable(name, value)
        fields = self._model.model_fields
        present = {k: v for k, v in given.items() if not self._is_absent(k, v)}
        try:
            checked = self._model.model_validate({k: _integral(v, fields.get(k)) for k, v in present.items()})
        except ValidationError as error:
            raise InvalidInput(self._explain(error)) from None
        return {name: getattr(checked, name) for name in fields}

    @property
    def meaningful_when_empty(self) -> dict[str, str]:
        """The meaning of "", by the name of each optional argument that has one."""
        return {
            name: declared.means
            for name, field in self._model.model_fields.items()
            for declared in field.metadata
            if isinstance(declared, Empty)
        }

    def _is_absent(self, name: str, value: object) -> bool:
        field = self._model.model_fields.get(name)
        if field is None or field.is_required():
            return False
        return value is None or (value == "" and name not in self._keeps_empty)

    def _explain(self, error: ValidationError) -> str:
        wrong = error.errors(include_url=False, include_context=True, include_input=False)
        parts = list(dict.fromkeys(_sentence(one) for one in wrong))
        return f"{'; '.join(parts[:3])}. This tool takes: {self._listing()}."

    def _listing(self) -> str:
        required = cast("list[str]", self.schema.get("required", []))
        names: list[str] = []
        for name, prop in cast("dict[str, dict[str, Any]]", self.schema.get("properties", {})).items():
            kinds = " or ".join(_kind(one) for one in prop.get("anyOf", [prop]))
            names.append(f"{name} ({kinds}{', required' if name in required else ''})")
        return ", ".join(names) or "no arguments"


def _kind(schema: Mapping[str, Any]) -> str:
    values = "one of " + ", ".join(map(str, schema.get("enum", ["…"])))
    return _JSON_TYPES.get(str(schema.get("type")), values)


def _sentence(wrong: ErrorDetails) -> str:
    first, *inside = (str(part) for part in wrong["loc"])
    name = ".".join([first, *(part for part in inside if not _TRIED.match(part))])
    said = wrong["msg"].removeprefix("Input ")
    return f"'{name[:64]}' {_SENTENCES.get(wrong['type']) or said[:1].lower() + said[1:]}"


def _integral(value: object, field: FieldInfo | None) -> object:
    # JSON has one number type: 5.0 is an integer there (JSON Schema 2020-12, validation §6.1.1).
    if (
        isinstance(value, float)
        and value.is_integer()
        and field is not None
        and "int" in str(field.annotation)
    ):
        return int(value)
    return value


def _refuse_unusable(name: str, value: object) -> None:
    longest = _LONGEST_PAGES if name in PAGES else _LONGEST
    if isinstance(value, str) and len(value) > longest and name not in CONTENT:
        raise InvalidInput(f"'{name[:64]}' cannot be longer than {longest:,} characters: shorten it.")
    if isinstance(value, list):
        _refuse_many(name, cast("list[object]", value))
        for item in cast("list[object]", value):
            _refuse_unusable(name, item)
    if isinstance(value, dict):
        _refuse_many(name, list(cast("dict[str, object]", value)))
        for key, item in cast("dict[str, object]", value).items():
            _refuse_unusable(name, key)
            # The values of an object may be texts of any length, as in a row of a table.
            _refuse_unusable("content", item)
    if isinstance(value, float) and not isfinite(value):
        # JSON has no such number (RFC 8259 §6), so it could not be sent to Nextcloud.
        raise InvalidInput(f"'{name[:64]}' must be a finite number.")
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidInput(f"'{name[:64]}' holds a NUL character; send it without.")
        # A lone surrogate cannot be encoded, so it could not be sent to Nextcloud.
        if _SURROGATE.search(value):
            raise InvalidInput(f"'{name[:64]}' holds broken Unicode; send it again as proper text.")


def _refuse_many(name: str, values: Sequence[object]) -> None:
    """Refuse a list that is too long altogether, though each of its texts is short."""
    if len(values) > _MOST_ITEMS:
        raise InvalidInput(f"'{name[:64]}' cannot have more than {_MOST_ITEMS:,} entries: shorten it.")
    if sum(len(one) for one in values if isinstance(one, str)) > _LONGEST_PAGES:
        raise InvalidInput(
            f"The entries of '{name[:64]}' together cannot be longer than {_LONGEST_PAGES:,} characters: shorten them."
        )


def _slim(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove what costs tokens without information: titles, null alternatives, null defaults."""
    slim: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    if "required" in schema:
        slim["required"] = schema["required"]
    for name, prop in cast("dict[str, dict[str, Any]]", schema.get("properties", {})).items():
        slim["properties"][name] = _slim_property(prop)
    return slim


def _slim_property(prop: dict[str, Any]) -> dict[str, Any]:
    prop = {key: value for key, value in prop.items() if key != "title"}
    alternatives = [one for one in prop.pop("anyOf", []) if one.get("type") != "null"]
    if len(alternatives) == 1:
        prop = {**_slim_property(alternatives[0]), **prop}
    elif alternatives:
        prop["anyOf"] = [_slim_property(one) for one in alternatives]
    if "default" in prop and prop["default"] is None:
        del prop["default"]
    if isinstance(prop.get("items"), dict):
        prop["items"] = _slim_property(prop["items"])
    return prop

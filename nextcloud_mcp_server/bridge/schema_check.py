"""Checks a value against a JSON Schema that a server chose, in bounded time.

Python's `re` may need years for a hostile pattern, and `jsonschema` for references that double with each level. The
engine of pydantic is linear. What it does not know, such as a look-ahead, and what cannot be checked in time, passes:
the schema is the server's, and so is the value.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, cast

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

# The SDK depends on it; its import is slow.
if TYPE_CHECKING:
    import jsonschema

_MOST_SECONDS: Final = 2.0
#: Longer lists of objects are compared pair by pair.
_MOST_UNIQUE: Final = 1000
#: They read the names of `patternProperties` with Python's `re`.
_UNEVALUATED: Final = "unevaluatedProperties"

#: A keyword of `jsonschema`: takes the validator, the keyword's value, the value to check, and the schema.
_Keyword = Callable[[Any, Any, Any, Any], "Iterator[jsonschema.ValidationError] | None"]


class _Validator(Protocol):
    """The part of a validator that is needed here."""

    def descend(
        self, instance: object, schema: object, path: str | None = None, schema_path: str | None = None
    ) -> "Iterator[jsonschema.ValidationError]":
        """Check a part of the value against a part of the schema."""
        ...


class _TooMuchWork(Exception):
    """The check has taken too long."""


class SchemaCheck:
    """Checks values against one schema; it stands in for a validator of `jsonschema`."""

    def __init__(self, schema: Mapping[str, Any], *, formats: bool = False) -> None:
        """Read the schema.

        Raises:
            jsonschema.SchemaError: It is none.
        """
        import jsonschema  # noqa: PLC0415 - see above
        from jsonschema import validators  # noqa: PLC0415 - see above
        from referencing import Registry  # noqa: PLC0415 - see above

        made, registry = cast("Any", validators), cast("Any", Registry)

        kind: Any = jsonschema.Draft202012Validator
        if isinstance(schema.get("$schema"), str):
            kind = made.validator_for(schema, kind)
        try:
            # Python may be unable to read a pattern that the other engine can.
            kind.check_schema(schema, format_checker=jsonschema.FormatChecker(()))
        except RecursionError:
            raise jsonschema.SchemaError("it is nested too deeply") from None
        self._ends_at = 0.0
        keywords = {**kind.VALIDATORS, **_LINEAR}
        if "patternProperties" in str(schema):
            keywords.pop(_UNEVALUATED, None)
        bounded = {name: self._bounded(check) for name, check in keywords.items()}
        if _UNEVALUATED in kind.VALIDATORS:
            bounded.setdefault(_UNEVALUATED, _passes)
        checker = jsonschema.FormatChecker() if formats else None
        # Nothing is fetched.
        self._validator: Any = made.extend(kind, bounded)(schema, registry=registry(), format_checker=checker)

    def iter_errors(self, value: object) -> "Iterator[jsonschema.ValidationError]":
        """Yield what does not fit, as far as that can be found in time."""
        self._ends_at = time.monotonic() + _MOST_SECONDS
        try:
            yield from self._validator.iter_errors(value)
        except (_TooMuchWork, RecursionError):
            return

    def fault(self, value: object) -> str | None:
        """Return what is most wrong with a value; None for nothing.

        Raises:
            Unresolvable: The schema refers to another document.
        """
        from jsonschema import exceptions  # noqa: PLC0415 - see above

        error = cast("Any", exceptions).best_match(self.iter_errors(value))
        return None if error is None else str(error.message)

    def _bounded(self, check: _Keyword) -> _Keyword:
        def bounded(
            validator: object, rule: object, value: object, schema: object
        ) -> "Iterator[jsonschema.ValidationError] | None":
            if time.monotonic() > self._ends_at:
                raise _TooMuchWork
            return check(validator, rule, value, schema)

        return bounded


@lru_cache(maxsize=256)
def _engine(pattern: str) -> TypeAdapter[str] | None:
    try:
        return TypeAdapter[str](Annotated[str, Field(pattern=pattern)])
    except SchemaError:
        return None


def _fits(text: str, pattern: str, *, unknown: bool = True) -> bool:
    """Tell whether a text fits a pattern, in linear time; `unknown` is the answer where the engine cannot read it."""
    engine = _engine(pattern)
    if engine is None:
        return unknown
    try:
        engine.validate_python(text)
    except ValidationError:
        return False
    return True


def _passes(validator: object, rule: object, value: object, schema: object) -> None:
    del validator, rule, value, schema


def _pattern(
    validator: _Validator, rule: str, value: object, schema: object
) -> "Iterator[jsonschema.ValidationError]":
    import jsonschema  # noqa: PLC0415 - see above

    del validator, schema
    if isinstance(value, str) and not _fits(value, rule):
        yield jsonschema.ValidationError(f"{value!r} does not match {rule!r}")


def _pattern_properties(
    validator: _Validator, rule: Mapping[str, Any], value: object, schema: object
) -> "Iterator[jsonschema.ValidationError]":
    del schema
    known = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    for pattern, inner in rule.items():
        for name, one in known.items():
            if _fits(name, pattern, unknown=False):
                yield from validator.descend(one, inner, path=name, schema_path=pattern)


def _additional_properties(
    validator: _Validator, rule: object, value: object, schema: Mapping[str, Any]
) -> "Iterator[jsonschema.ValidationError]":
    import jsonschema  # noqa: PLC0415 - see above

    known = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    patterns: Mapping[str, Any] = schema.get("patternProperties", {})
    # A pattern that cannot be read may be meant for any of them.
    extra = [
        name
        for name in known
        if name not in schema.get("properties", {}) and not any(_fits(name, one) for one in patterns)
    ]
    if rule is False and extra:
        yield jsonschema.ValidationError(f"Additional properties are not allowed: {extra[:10]!r}")
    elif isinstance(rule, dict):
        for name in extra:
            yield from validator.descend(known[name], cast("object", rule), path=name)


def _unique_items(
    validator: _Validator, rule: object, value: object, schema: object
) -> "Iterator[jsonschema.ValidationError]":
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - see above

    if isinstance(value, list) and len(cast("list[object]", value)) <= _MOST_UNIQUE:
        keywords: Mapping[str, Any] = Draft202012Validator.VALIDATORS
        yield from keywords["uniqueItems"](validator, rule, value, schema) or ()


_LINEAR: Final[Mapping[str, _Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}

"""What tool bodies return: data, documents, images."""

import base64
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nextcloud_mcp_server.errors import Link
from nextcloud_mcp_server.formats import timestamp


class _Long:
    """Marks a text that may be long."""


#: A text that may be long: it is sent after all short values.
LongText = Annotated[str, _Long()]


def _or_none(value: object) -> object:
    return value or None


#: A value that is left out where it is false, 0 or empty.
OMIT_EMPTY: Final = BeforeValidator(_or_none)
Flag = Annotated[bool | None, OMIT_EMPTY]
Count = Annotated[int | None, OMIT_EMPTY]
Text = Annotated[str | None, OMIT_EMPTY]


def _moment(value: object) -> object:
    return timestamp.moment(value) if isinstance(value, int) else value


#: A time that the app sends in Unix seconds.
Moment = Annotated[datetime, BeforeValidator(_moment)]

_SHORT: Final = 0
_LIST: Final = 1
_LONG: Final = 2


def _weight(annotation: Any) -> int:  # noqa: ANN401 - an annotation can be anything
    """Return the sort key of a member: short values, then lists and objects, then long texts."""
    origin = get_origin(annotation)
    if origin is Annotated:
        of, *marks = get_args(annotation)
        return _LONG if any(isinstance(mark, _Long) for mark in marks) else _weight(of)
    if origin in (Union, UnionType):
        return max(_weight(one) for one in get_args(annotation))
    kind = origin or annotation
    return _LIST if isinstance(kind, type) and issubclass(kind, (list, tuple, dict, BaseModel)) else _SHORT


class Result(BaseModel):
    """Data for the model; sent as compact JSON text and as structured content.

    A response of an app that is a result as it is extends it, too: `Field(exclude=True)` keeps from the model what only
    this program needs, and `validation_alias` is the name that the app uses.

    What is short goes out first, then lists and objects, long texts last, in whatever order they are declared:
    clients cut off the end of a long answer, and without the etag or `next_offset` nothing can follow it.
    """

    # Built on first use: most sessions use few of the tools. A member with a default is sent like any other.
    model_config = ConfigDict(frozen=True, defer_build=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:  # noqa: ANN401 - pydantic's signature
        """Sort the members into the order in which they are sent."""
        fields = cls.__pydantic_fields__
        ordered = sorted(fields.items(), key=lambda field: _weight(field[1].rebuild_annotation()))
        fields.clear()
        fields.update(ordered)


class Document(Result):
    """A text body with data about it: one line of JSON, an empty line, the body as it is."""

    content: LongText


class NextStep(Result):
    """Data with a sentence about what to do next, and the link of this server that belongs to it.

    It is the only link to a consent page that a result may contain: this server made it, no other user wrote it.
    """

    next_step: str
    link: Link | None = Field(default=None, exclude=True, repr=False)


class ImageResult(Result):
    """An image with data about it; the bytes go out as MCP image content, not as JSON."""

    mime_type: str
    data: bytes = Field(exclude=True, repr=False)

    @property
    def base64(self) -> str:
        """The bytes in base64, as MCP requires."""
        return base64.b64encode(self.data).decode("ascii")

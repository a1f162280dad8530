"""What tool bodies return: plain data, documents, images."""

import base64

from pydantic import BaseModel, ConfigDict, Field


class Result(BaseModel):
    """Data for the model; sent as compact JSON text and as structured content."""

    # Built when a first one is made: most sessions use few of the tools.
    model_config = ConfigDict(frozen=True, defer_build=True)


class Document(Result):
    """A text body with data about it: one line of JSON, an empty line, the body as it is."""

    content: str


class ImageResult(Result):
    """An image with data about it; the bytes go out as MCP image content, not as JSON."""

    mime_type: str
    data: bytes = Field(exclude=True, repr=False)

    @property
    def base64(self) -> str:
        """The bytes as MCP wants them."""
        return base64.b64encode(self.data).decode("ascii")

"""Decodes file content that a client sends."""

import base64
import binascii
from typing import Annotated, Literal

from pydantic import Field

from nextcloud_mcp_server.errors import InvalidInput

Encoding = Literal["text", "base64"]
TargetEtag = Annotated[str | None, Field(description="To replace a file: its etag.")]


def decoded(content: str, encoding: Encoding) -> bytes:
    """Return the bytes of a content.

    Raises:
      InvalidInput: It is declared as base64 but is not.
    """
    if encoding == "text":
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("'content' is not base64: send it as base64, or set encoding to text.") from None

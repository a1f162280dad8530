"""What a model sends as a file's content, as bytes."""

import base64
import binascii
from typing import Literal

from nextcloud_mcp_server.errors import InvalidInput

Encoding = Literal["text", "base64"]


def decoded(content: str, encoding: Encoding) -> bytes:
    """Read a content.

    Raises:
        InvalidInput: It is not base64 though it is said to be.
    """
    if encoding == "text":
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("'content' is not base64: send it as base64, or set encoding to text.") from None

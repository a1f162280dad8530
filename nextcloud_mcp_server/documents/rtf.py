"""Extracts text from RTF."""

import re
from importlib import import_module
from typing import BinaryIO, Final, Protocol

from nextcloud_mcp_server.documents.output import Output, Refused

_CODE_PAGE: Final = re.compile(rb"\\ansicpg(\d{3,5})")


class _ToText(Protocol):
    def __call__(self, text: str, *, errors: str) -> str: ...


def read(file: BinaryIO, out: Output) -> None:
    """Write the text.

    Raises:
      Refused: It is not RTF.
    """
    # The library has no types.
    to_text: _ToText = import_module("striprtf.striprtf").rtf_to_text
    data = file.read()
    if not data.lstrip().startswith(b"{\\rtf"):
        raise Refused("broken")
    try:
        # RTF is ASCII; some programs write other bytes in the code page of the document.
        text = to_text(_decoded(data), errors="replace")
    except (ValueError, LookupError):
        raise Refused("broken") from None
    out.body(text)


def _decoded(data: bytes) -> str:
    page = _CODE_PAGE.search(data[:2048])
    try:
        return data.decode(f"cp{page[1].decode()}" if page else "cp1252", "replace")
    except LookupError:
        return data.decode("cp1252", "replace")

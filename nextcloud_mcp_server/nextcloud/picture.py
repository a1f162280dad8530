"""The avatar of an account, for display on a page."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Final

#: An avatar of 64 by 64 pixels has at most 16 KB without any compression.
MOST_BYTES: Final = 49_152
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a type that pages show; `content` begins with the signature of that type."""

    media_type: str
    content: bytes

    @classmethod
    def of(cls, media_type: str, content: bytes) -> "Picture | None":
        """Build from a response; None where the first bytes do not match the media type."""
        named = media_type.partition(";")[0].strip().lower()
        return cls(named, content) if named and named == _type_of(content) else None

    @property
    def data_uri(self) -> str:
        """Return it as a data URI, so that the browser sends no request for it."""
        return f"data:{self.media_type};base64,{b64encode(self.content).decode()}"


def _type_of(content: bytes) -> str:
    if content.startswith(_PNG):
        return "image/png"
    if content.startswith(_JPEG):
        return "image/jpeg"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return ""

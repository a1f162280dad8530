"""An image of Nextcloud, for display on a page: the avatar of an account, or a logo."""

import hashlib
from base64 import b64encode
from dataclasses import dataclass
from typing import Final

#: An avatar of 64 by 64 pixels has at most 16 KB without any compression.
MOST_BYTES: Final = 49_152
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_SVG: Final = "image/svg+xml"
#: A drawing begins with declarations and comments; programs write some hundred characters of them.
_SVG_WITHIN: Final = 4_096
_ENDINGS: Final = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", _SVG: "svg"}


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a type that pages show; `content` begins with the signature of that type.

    A drawing (SVG) may only be shown in an `img` or `image`: there browsers run no script of it, and load nothing.
    """

    media_type: str
    content: bytes

    @classmethod
    def of(cls, media_type: str, content: bytes, *, drawn: bool = False) -> "Picture | None":
        """Build from a response; None where the first bytes do not match the media type.

        Drawings are left out unless `drawn`.
        """
        named = media_type.partition(";")[0].strip().lower()
        if named == _SVG:
            return cls(named, content) if drawn and b"<svg" in content[:_SVG_WITHIN] else None
        return cls(named, content) if named and named == _type_of(content) else None

    @property
    def file_name(self) -> str:
        """Name it by its content, so that browsers may cache it for good."""
        return f"{hashlib.sha256(self.content).hexdigest()[:16]}.{_ENDINGS[self.media_type]}"

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

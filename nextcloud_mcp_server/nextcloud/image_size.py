"""The width and height that an image claims, without decoding it: a few bytes can claim gigabytes of pixels."""

import struct

_PNG_SIZE_AT = 16
_JPEG_START, _MARKER = 2, 0xFF
#: The markers of JPEG that begin a frame; the three between them mean something else.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def size_of(media_type: str, content: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, JPEG or WebP; None where it does not tell them."""
    try:
        match media_type:
            case "image/png":
                return struct.unpack_from(">II", content, _PNG_SIZE_AT)
            case "image/jpeg":
                return _of_jpeg(content)
            case "image/webp":
                return _of_webp(content)
            case _:
                return None
    except struct.error:
        return None


def _of_jpeg(content: bytes) -> tuple[int, int] | None:
    at = _JPEG_START
    while True:
        start, marker, length = struct.unpack_from(">BBH", content, at)
        if start != _MARKER:
            return None
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return width, height
        at += 2 + length


def _of_webp(content: bytes) -> tuple[int, int] | None:
    match content[12:16]:
        case b"VP8X":
            low, high, low_2, high_2 = struct.unpack_from("<HBHB", content, 24)
            return 1 + low + (high << 16), 1 + low_2 + (high_2 << 16)
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", content, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", content, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None

"""Sizes of images, written here as their specifications say."""

import struct
import zlib

import pytest

from nextcloud_mcp_server.nextcloud.image_size import size_of


def png(width: int, height: int) -> bytes:
    """Write the signature and the header of a PNG (ISO 15948, 11.2.2)."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


def jpeg(width: int, height: int, frame: int = 0xC0) -> bytes:
    """Write the segments of a JPEG up to its frame (ITU-T T.81, B.2.2)."""
    jfif = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9)
    tables = b"\xff\xc4" + struct.pack(">H", 4) + bytes(2)
    return (
        b"\xff\xd8"
        + jfif
        + tables
        + bytes([0xFF, frame])
        + struct.pack(">HBHHB", 17, 8, height, width, 3)
        + bytes(9)
    )


def webp(chunk: bytes, content: bytes) -> bytes:
    """Write a WebP with one chunk (RFC 9649, 2.3)."""
    body = b"WEBP" + chunk + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", len(body)) + body


LOSSY = webp(b"VP8 ", b"\x10\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 640 | 1 << 14, 480))
LOSSLESS = webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14 | 1 << 28))
EXTENDED = webp(b"VP8X", b"\x10\0\0\0" + (69_999).to_bytes(3, "little") + (70_000).to_bytes(3, "little"))


@pytest.mark.parametrize(
    ("media_type", "content", "size"),
    [
        ("image/png", png(640, 480), (640, 480)),
        ("image/png", png(2**31 - 1, 1), (2**31 - 1, 1)),
        ("image/jpeg", jpeg(640, 480), (640, 480)),
        ("image/jpeg", jpeg(640, 480, frame=0xC2), (640, 480)),
        ("image/webp", LOSSY, (640, 480)),
        ("image/webp", LOSSLESS, (640, 480)),
        ("image/webp", EXTENDED, (70_000, 70_001)),
        ("image/svg+xml", b"<svg width='1' height='1'/>", None),
        ("image/png", b"\x89PNG\r\n\x1a\n", None),
        ("image/jpeg", b"\xff\xd8\xff\xe0\x00\x10", None),
        ("image/jpeg", b"\xff\xd8\xff\xe0\x00\x02nonsense", None),
        ("image/webp", webp(b"ALPH", bytes(20)), None),
        ("image/webp", b"RIFF\0\0\0\0WEBPVP8X", None),
    ],
)
def test_the_size_is_read_without_decoding(
    media_type: str, content: bytes, size: tuple[int, int] | None
) -> None:
    assert size_of(media_type, content) == size

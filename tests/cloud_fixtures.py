"""A Nextcloud with a name and a logo of its own, and the logo of an app, for tests and pictures of the pages."""

import struct
import zlib

from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.nextcloud.theming import Theming
from nextcloud_mcp_server.sandbox.state import State


class KnownCloud:
    """A theming that is known already, and how often a page wanted it."""

    def __init__(self, theming: Theming | None) -> None:
        self.current = theming
        self.wishes = 0

    async def wanted(self) -> Theming | None:
        self.wishes += 1
        return self.current


def family_cloud() -> KnownCloud:
    """Return the Nextcloud of the pictures, with Nextcloud's usual colour."""
    return KnownCloud(Theming("Family Cloud", "#00679e", Picture(*State().logo)))


def app_logo(pixels: int = 64) -> bytes:
    """Draw the logo of a made-up app: a light disc on orange, as a PNG."""
    middle, radius = pixels / 2, pixels / 4
    rows = b"".join(
        b"\0"
        + b"".join(
            b"\xff\xf4\xe6" if (x - middle) ** 2 + (y - middle) ** 2 < radius**2 else b"\xd9\x77\x57"
            for x in range(pixels)
        )
        for y in range(pixels)
    )
    header = struct.pack(">IIBBBBB", pixels, pixels, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )

"""Nextcloud's letters and numbers about files, as words."""

from typing import Final

_PERMISSIONS: Final = {
    "G": "read",
    "W": "write",
    "D": "delete",
    "N": "rename",
    "V": "move",
    "C": "create files",
    "K": "create folders",
    "R": "share",
}
_SHARES: Final = {
    "0": "person",
    "1": "group",
    "3": "public link",
    "4": "e-mail",
    "6": "person on another server",
    "7": "team",
    "9": "group on another server",
    "10": "conversation",
    "12": "board",
}
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
IMAGE_NAMES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def permissions(letters: str) -> list[str]:
    """Return `oc:permissions`, such as `RGDNVW`, as words."""
    return [word for letter, word in _PERMISSIONS.items() if letter in letters]


def shares(numbers: tuple[str, ...]) -> list[str]:
    """Return the kinds of a file's shares as words."""
    return [_SHARES.get(number, "something else") for number in numbers]


def image(data: bytes) -> str | None:
    """Return the media type of an image by its first bytes, where clients can show it."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGES if data.startswith(start)), None)

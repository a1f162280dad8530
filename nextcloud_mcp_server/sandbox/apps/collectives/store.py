"""Collectives of the sandbox."""

from dataclasses import dataclass

_MOUNT = "/.Collectives"


@dataclass(slots=True)
class StoredCollective:
    """One collective of one user."""

    id: int
    name: str
    emoji: str | None
    owner: str
    trashed_at: int | None = None

    @property
    def folder(self) -> str:
        """The folder of its pages."""
        return f"{_MOUNT}/{self.name}"


class CollectiveStore(list[StoredCollective]):
    """The collectives of all users."""

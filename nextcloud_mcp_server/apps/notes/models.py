"""A note as the Notes app returns it.

Results have models of their own: the app leaves fields out, and answers an error in place of a text.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.etag import normalise
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id

_MAX_TITLE_BYTES = 200


class Note(Answer):
    """One note. `content` is None where it was not requested; `path` is relative to the home folder."""

    id: Id
    title: str
    etag: Annotated[str, AfterValidator(normalise)] = ""
    category: str = ""
    modified: int = 0
    favorite: bool = False
    readonly: bool = False
    path: str | None = Field(default=None, validation_alias="internalPath")
    error: bool = False
    error_type: str = Field(default="", validation_alias="errorType")
    content: str | None = None

    @property
    def is_internal(self) -> bool:
        """Tell whether the note is in a folder that an app uses internally, such as `.attachments.7`.

        Up to version 6.0.1 the app lists files there that look like notes, with that folder as category
        (`NotesService::gatherNoteFiles`; 6.0.2 leaves them out).
        """
        return any(part.startswith(".") for part in self.category.split("/"))

    @property
    def text(self) -> str:
        """Return the content, where it was requested.

        Raises:
          Locked: Nextcloud returned an error message as content, because the note is being written.
          ServerFault: It did so for another reason.
        """
        if self.error and "LockedException" in self.error_type:
            raise errors.Locked(
                "The note is locked: another user or app is writing it right now. Wait some seconds, then retry."
            )
        if self.error or self.content is None:
            raise errors.ServerFault(
                "Nextcloud cannot read this note's file. Try later, or look at it in Nextcloud."
            )
        return self.content


def shortened(title: str) -> str:
    """Cut a title to the length that file systems allow, at a character boundary.

    Nextcloud counts characters, but 100 Chinese ones are 300 bytes, and renaming to that fails with 500.
    """
    return title.encode()[:_MAX_TITLE_BYTES].decode(errors="ignore").rstrip()

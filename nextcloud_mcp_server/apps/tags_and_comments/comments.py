"""Comments on files, over WebDAV."""

from datetime import datetime
from typing import Final

from pydantic import Field

from nextcloud_mcp_server.nextcloud import dav, entries, file_errors
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.top_k import cut
from nextcloud_mcp_server.tools.result import LongText, Result

#: Nextcloud's maximum length.
MAX_CHARACTERS: Final = 1000
_OFF: Final = "It is gone, or this Nextcloud has no comments: their app is switched off."


class CommentRow(Result):
    """What a user said."""

    author: str
    text: LongText
    created: datetime | None = None
    #: Later comments have greater ones.
    number: int = Field(exclude=True)


class CommentsClient(AppClient):
    """Reads and adds comments. Reading does not mark them as read."""

    async def list_comments(
        self, file_id: str, *, limit: int, first: int = 0, before: int | None = None
    ) -> tuple[list[CommentRow], bool]:
        """Fetch a page of a file's comments, newest first; also return whether there are more.

        The page begins at number `first`. Comments that are not older than comment `before` are skipped: the client
        has seen them, and new comments have moved them down.

        Raises:
          NotFound: No such file, or this Nextcloud has no comments.
        """
        tree = _tree(file_id)
        asked = entries.ask(
            self._http,
            "REPORT",
            tree,
            url=f"{tree.url()}/",
            body=dav.filter_comments(limit=limit + 1, offset=first),
            sentences={404: _OFF},
        )
        async with asked as found:
            read = [_comment(response) async for _, response in found]
        page = cut(read, limit)
        return [one for one in page.rows if before is None or one.number < before], page.more

    async def add(self, path: str, file_id: str, text: str) -> None:
        """Add a comment to the file at a path; Nextcloud notifies users mentioned as @"uid".

        Raises:
          NotFound: No such file, or this Nextcloud has no comments.
        """
        sent = {"actorType": "users", "verb": "comment", "objectType": "files", "message": text}
        with file_errors.in_doubt(path):
            await self._http.request("POST", f"{_tree(file_id).url()}/", json=sent, sentences={404: _OFF})


def _tree(file_id: str) -> dav.Tree:
    return dav.Tree(("comments", "files", file_id))


def _comment(response: entries.DavResponse) -> CommentRow:
    return CommentRow(
        number=entries.number(response.text("oc:id")) or 0,
        author=response.text("oc:actorDisplayName") or response.text("oc:actorId"),
        text=response.text("oc:message"),
        created=entries.http_date(response.text("oc:creationDateTime")),
    )

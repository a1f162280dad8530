"""The Collectives app (API 1.0): which pages there are; their texts are files.

Recorded are the lists, and a failure to make a page; fetching one page and making one were seen on 4.5.0. The app
says nothing of itself in the capabilities.
"""

from typing import Final

from pydantic import Field, TypeAdapter

from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp, decoded
from nextcloud_mcp_server.nextcloud.ids import Id

_BASE: Final = "/apps/collectives/api/v1.0/collectives"
#: What a collective's first page is below; as the id of a page it stands for that one.
FIRST_PAGE: Final = "0"
_SENTENCES: Final = {
    403: "Collectives does not allow this{reason}: the person may only read that collective.",
    404: (
        "There is no such collective or page among the person's, or Collectives is not installed. "
        "Call nc_collectives_list_pages for the ones there are."
    ),
}
_FAILED: Final = (
    "Collectives failed while it made the page, which may be there all the same, and empty: look with "
    "nc_collectives_list_pages before you try again."
)


class Collective(Answer):
    """A collective: pages that a team keeps together."""

    id: Id
    name: str
    emoji: str | None = None
    can_edit: bool = Field(default=False, validation_alias="canEdit")


class Page(Answer):
    """One page; its text is the file at `path`."""

    id: Id
    title: str
    emoji: str | None = None
    parent_id: Id = Field(default=FIRST_PAGE, validation_alias="parentId")
    changed_by: str | None = Field(default=None, validation_alias="lastUserDisplayName")
    modified_at: int = Field(default=0, validation_alias="timestamp")
    size: int = 0
    mount: str = Field(validation_alias="collectivePath")
    folder: str = Field(default="", validation_alias="filePath")
    file: str = Field(validation_alias="fileName")

    @property
    def path(self) -> str:
        """Where it is among the user's files."""
        return "/".join(part.strip("/") for part in (self.mount, self.folder, self.file) if part.strip("/"))


class _Collectives(Answer):
    collectives: list[Collective]


class _Pages(Answer):
    pages: list[Page]


class _OnePage(Answer):
    page: Page


_COLLECTIVES = TypeAdapter(ocs.Envelope[_Collectives])
_PAGES = TypeAdapter(ocs.Envelope[_Pages])
_PAGE = TypeAdapter(ocs.Envelope[_OnePage])


class CollectivesClient:
    """Reads and makes pages of one user's collectives."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def list_collectives(self) -> list[Collective]:
        """Fetch the collectives the user is in."""
        found, _ = await ocs.get(self._http, _BASE, _COLLECTIVES, sentences=_SENTENCES)
        return found.collectives

    async def pages(self, collective_id: Id) -> list[Page]:
        """Fetch all pages of a collective, without their texts.

        Raises:
            NotFound: The user is in no such collective.
        """
        found, _ = await ocs.get(self._http, f"{_BASE}/{collective_id}/pages", _PAGES, sentences=_SENTENCES)
        return found.pages

    async def page(self, collective_id: Id, page_id: Id) -> Page:
        """Fetch one page, without its text.

        Raises:
            NotFound: No such page.
        """
        path = f"{_BASE}/{collective_id}/pages/{page_id}"
        found, _ = await ocs.get(self._http, path, _PAGE, sentences=_SENTENCES)
        return found.page

    async def create(self, collective_id: Id, parent_id: Id, title: str) -> Page:
        """Make an empty page below another one; 0 is the first page of the collective.

        That one's id is looked up: for 0 itself 4.5.0 makes the page and answers 404 all the same.

        Raises:
            NotFound: No such collective, or no such page above it.
            Forbidden: The user may only read there.
            ServerFault: It failed, perhaps half-way.
        """
        if parent_id == FIRST_PAGE:
            first = (page.id for page in await self.pages(collective_id) if page.parent_id == FIRST_PAGE)
            parent_id = next(first, parent_id)
        response = await self._http.request(
            "POST",
            f"/ocs/v2.php{_BASE}/{collective_id}/pages/{parent_id}",
            params={"format": "json"},
            json={"title": title},
            sentences={**_SENTENCES, 500: _FAILED},
        )
        return decoded(response, _PAGE).ocs.data.page

"""Lists and creates pages of the Collectives app (API 1.0); the texts of pages are files.

Recorded are the lists, and a failure to create a page; fetching and creating a page were observed on 4.5.0. The app
announces nothing in the capabilities.
"""

from typing import Final

from pydantic import Field, TypeAdapter

from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer, decoded
from nextcloud_mcp_server.nextcloud.ids import Id

_BASE: Final = "/apps/collectives/api/v1.0/collectives"
#: The parent id of a collective's first page; as a page id it stands for that page.
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
    """A collective: pages that a team shares."""

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
        """Its path among the user's files."""
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


class CollectivesClient(AppClient):
    """Reads and creates pages of one user's collectives."""

    async def list_collectives(self) -> list[Collective]:
        """Fetch the collectives of which the user is a member."""
        found, _ = await ocs.get(self._http, _BASE, _COLLECTIVES, sentences=_SENTENCES)
        return found.collectives

    async def pages(self, collective_id: Id) -> list[Page]:
        """Fetch all pages of a collective, without their texts.

        Raises:
          NotFound: The user is not a member of such a collective.
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
        """Create an empty page below another one; 0 is the first page of the collective.

        The first page's id is looked up: given 0, 4.5.0 creates the page but answers 404.

        Raises:
          NotFound: No such collective, or no such parent page.
          Forbidden: The user has only read access.
          ServerFault: It failed, and may be partly done.
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

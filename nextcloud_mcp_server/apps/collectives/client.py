"""Lists and creates pages of the Collectives app (API 1.0); the texts of pages are files.

Recorded are the lists, and a failure to create a page; fetching and creating a page were observed on 4.5.0. The app
announces nothing in the capabilities.
"""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud.app_client import AppClient
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.tools.result import Moment, Result, Text

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


def _below(value: object) -> object:
    return None if value in (0, FIRST_PAGE) else value


class Collective(Result):
    """A collective."""

    id: Id
    name: str
    emoji: Text = None
    can_edit: bool = Field(default_factory=bool, validation_alias="canEdit")


class Page(Result):
    """A page in a list."""

    id: Id
    title: str
    emoji: Text = None
    #: None for the first page, too, which is below no other one.
    parent_id: Annotated[Id | None, BeforeValidator(_below)] = Field(
        default=None, validation_alias="parentId"
    )
    modified: Moment = Field(default_factory=lambda: timestamp.moment(0), validation_alias="timestamp")
    changed_by: str | None = Field(default=None, validation_alias="lastUserDisplayName")
    size: int = Field(default_factory=int)
    mount: str = Field(validation_alias="collectivePath", exclude=True)
    folder: str = Field(default="", validation_alias="filePath", exclude=True)
    file: str = Field(validation_alias="fileName", exclude=True)

    @property
    def path(self) -> str:
        """The path of its text among the user's files."""
        return "/".join(part.strip("/") for part in (self.mount, self.folder, self.file) if part.strip("/"))


class _Collectives(Answer):
    collectives: list[Collective]


class _Pages(Answer):
    pages: list[Page]


class _OnePage(Answer):
    page: Page


class CollectivesClient(AppClient):
    """Reads and creates pages of one user's collectives."""

    async def list_collectives(self) -> list[Collective]:
        """Fetch the collectives of which the user is a member."""
        return (await self._request_ocs("GET", _BASE, _Collectives, sentences=_SENTENCES)).collectives

    async def pages(self, collective_id: Id) -> list[Page]:
        """Fetch all pages of a collective, without their texts.

        Raises:
          NotFound: The user is not a member of such a collective.
        """
        path = f"{_BASE}/{collective_id}/pages"
        return (await self._request_ocs("GET", path, _Pages, sentences=_SENTENCES)).pages

    async def page(self, collective_id: Id, page_id: Id) -> Page:
        """Fetch one page, without its text.

        Raises:
            NotFound: No such page.
        """
        path = f"{_BASE}/{collective_id}/pages/{page_id}"
        return (await self._request_ocs("GET", path, _OnePage, sentences=_SENTENCES)).page

    async def create(self, collective_id: Id, parent_id: Id, title: str) -> Page:
        """Create an empty page below another one; 0 is the first page of the collective.

        The first page's id is looked up: given 0, 4.5.0 creates the page but answers 404.

        Raises:
          NotFound: No such collective, or no such parent page.
          Forbidden: The user has only read access.
          ServerFault: It failed, and may be partly done.
        """
        if parent_id == FIRST_PAGE:
            first = (page.id for page in await self.pages(collective_id) if page.parent_id is None)
            parent_id = next(first, parent_id)
        path, sentences = f"{_BASE}/{collective_id}/pages/{parent_id}", {**_SENTENCES, 500: _FAILED}
        sent = {"title": title}
        return (await self._request_ocs("POST", path, _OnePage, json=sent, sentences=sentences)).page

"""Tags, which all users share, and favourites, which each user has alone."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, entries, file_errors
from nextcloud_mcp_server.nextcloud.aside import sorted_aside
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.spelling import composed

_TAGS: Final = dav.Tree(("systemtags",))
_PROPERTIES: Final = ("oc:id", "oc:display-name", "oc:can-assign")
_NO_TAGS: Final = "This Nextcloud has no tags: their app is switched off."
#: Letters of `oc:permissions` for changing a file (W), or a folder and its content.
_CHANGING: Final = frozenset("WCKNV")
#: The size of the database column; Nextcloud silently truncates longer names.
_MAX_TAG_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag; some may be assigned by administrators only."""

    tag_id: str
    name: str
    assignable: bool


@dataclass(frozen=True, slots=True)
class Marked:
    """A file to mark: its path, its file id and its `oc:permissions`."""

    path: str
    file_id: str
    permissions: str = ""

    @property
    def is_read_only(self) -> bool:
        """Tell whether the user is known to lack write permission, which assigning a tag needs."""
        return bool(self.permissions) and not _CHANGING & set(self.permissions)


class TagsClient:
    """Reads and sets the tags and the favourite flag of files and folders."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        self._files = dav.Tree.of("files", http.uid)

    async def all_tags(self) -> list[Tag]:
        """Fetch every tag that the user can see, sorted by name.

        Raises:
          NotFound: This Nextcloud has no tags.
        """
        return await self._listed(_TAGS, _NO_TAGS)

    async def tags_of(self, file_id: str) -> list[Tag]:
        """Fetch the tags of one file or folder, sorted by name."""
        return await self._listed(_relations(file_id), "It is gone, or this Nextcloud has no tags.")

    async def find_tag(self, name: str) -> Tag:
        """Find a tag by its name.

        Raises:
          NotFound: There is none.
        """
        found = _named(name, await self.all_tags())
        if found is None:
            raise errors.NotFound(f"There is no tag {quoted(name)}: see nc_files_list_tags.")
        return found

    async def change(
        self, item: Marked, *, add: Sequence[str], remove: Sequence[str], favourite: bool | None
    ) -> list[str]:
        """Add and remove tags and the favourite flag, one request each; return failures as sentences.

        Raises:
          NextcloudError: Nothing was changed.
        """
        for name in add:
            _check(name)
        known = await self.all_tags() if add or remove else []
        held = await self.tags_of(item.file_id) if add or remove else []
        steps = [
            _Step(f"Tag {quoted(name)} was not set", partial(self._add, item, name, known))
            for name in dict.fromkeys(add)
            if _named(name, held) is None
        ]
        steps += [
            _Step(f"Tag {quoted(name)} was not taken off", partial(self._remove, item, tag))
            for name in dict.fromkeys(remove)
            if (tag := _named(name, held)) is not None
        ]
        if favourite is not None:
            steps.append(_Step("The favourite mark was not changed", partial(self._mark, item, favourite)))
        return await _carried_out(steps)

    async def _add(self, item: Marked, name: str, known: Sequence[Tag]) -> None:
        if item.is_read_only:
            # Nextcloud would reject it only after creating a new tag, which every user sees and cannot remove.
            raise errors.Forbidden(_READ_ONLY)
        if tag := _named(name, known):
            await self._assign(item, tag.tag_id)
            return
        tag_id = await self._create(name)
        try:
            await self._assign(item, tag_id)
        except errors.NextcloudError as error:
            if file_errors.perhaps(error):
                raise
            raise type(error)(f"{error}{await self._unmade(name, tag_id)}") from error

    async def _assign(self, item: Marked, tag_id: str) -> None:
        # Another user may just have assigned it.
        with suppress(errors.Conflict), file_errors.in_doubt(item.path):
            await self._http.request("PUT", _relations(item.file_id).url((tag_id,)), sentences=_NOT_YOURS)

    async def _unmade(self, name: str, tag_id: str) -> str:
        """Delete a newly created tag that could not be assigned; return a note where that fails."""
        try:
            await self._http.request("DELETE", _TAGS.url((tag_id,)))
        except file_errors.NOT_SEEN:
            return (
                f" The new tag {quoted(name)} is there, and all users see it; an administrator can delete it."
            )
        return ""

    async def _remove(self, item: Marked, tag: Tag) -> None:
        if item.is_read_only:
            raise errors.Forbidden(_READ_ONLY)
        # Another user may just have removed it.
        with suppress(errors.NotFound), file_errors.in_doubt(item.path):
            url = _relations(item.file_id).url((tag.tag_id,))
            await self._http.request("DELETE", url, sentences=_NOT_YOURS)

    async def _mark(self, item: Marked, favourite: bool) -> None:  # noqa: FBT001 - named where it is bound
        body = dav.proppatch("oc:favorite", str(int(favourite)))
        url = self._files.url(dav.split(item.path))
        with file_errors.in_doubt(item.path):
            await self._http.request("PROPPATCH", url, headers=dav.XML_HEADERS, content=body)

    async def _create(self, name: str) -> str:
        """Create a tag that every user can see and use, and return its id."""
        wanted = {"name": name, "userVisible": True, "userAssignable": True, "canAssign": True}
        refused = (
            f"This Nextcloud lets only administrators make tags, and there is none called {quoted(name)}: "
            "choose one from nc_files_list_tags."
        )
        response = await self._http.request(
            "POST", f"{_TAGS.url()}/", json=wanted, sentences={403: refused, 409: _HIDDEN}
        )
        located = response.headers.get("Content-Location", "").rstrip("/").rpartition("/")[2]
        return located or (await self.find_tag(name)).tag_id

    async def _listed(self, tree: dav.Tree, gone: str) -> list[Tag]:
        asked = entries.ask(
            self._http,
            "PROPFIND",
            tree,
            url=f"{tree.url()}/",
            body=dav.propfind(_PROPERTIES),
            headers={"Depth": "1"},
            sentences={404: gone},
        )
        async with asked as found:
            tags = [_tag(response) async for segments, response in found if segments]
        return await sorted_aside(tags, lambda tag: (tag.name.casefold(), tag.name), uid=self._http.uid)


_READ_ONLY: Final = "the person may only read this, and tags are for those who may change it."
_NOT_YOURS: Final = {
    403: "the file may only be read, or the tag is one that only administrators give.",
    412: "the tag was deleted meanwhile; call again to make it anew.",
}
_HIDDEN: Final = "a tag of that name exists already, but only administrators can use it."


class _Step(NamedTuple):
    """One change, and the text for its failure."""

    failed: str
    run: Callable[[], Awaitable[None]]


async def _carried_out(steps: Sequence[_Step]) -> list[str]:
    failed: list[str] = []
    first: errors.NextcloudError | None = None
    for step in steps:
        try:
            await step.run()
        except (*file_errors.NOT_SEEN, errors.Conflict, errors.EtagMismatch, errors.InvalidName) as error:
            first = first or error
            failed.append(f"{step.failed}{file_errors.perhaps(error)}: {error}")
    if first is not None and len(failed) == len(steps):
        raise type(first)(" ".join(failed))
    return failed


def _check(name: str) -> None:
    if not name.strip() or len(name.encode()) > _MAX_TAG_BYTES:
        raise errors.InvalidInput(f"A tag has a name of 1 to {_MAX_TAG_BYTES} bytes: {quoted(name)} is none.")


def _relations(file_id: str) -> dav.Tree:
    return dav.Tree(("systemtags-relations", "files", file_id))


def _named(name: str, tags: Sequence[Tag]) -> Tag | None:
    """Find the tag with that name; ignore case only where that is unambiguous."""
    exact = composed(name)
    for wanted in (exact, exact.strip()):
        same = [tag for tag in tags if composed(tag.name) == wanted]
        folded = [tag for tag in tags if tag.name.casefold() == wanted.casefold()]
        if same or len(folded) == 1:
            return same[0] if same else folded[0]
    return None


def is_among(name: str, tags: Sequence[str]) -> bool:
    """Tell whether a tag of that name is among these, by the rule of `change`."""
    return _named(name, [Tag(tag, tag, assignable=True) for tag in tags]) is not None


def _tag(response: entries.DavResponse) -> Tag:
    return Tag(
        tag_id=response.text("oc:id"),
        name=response.text("oc:display-name"),
        assignable=response.text("oc:can-assign") != "false",
    )

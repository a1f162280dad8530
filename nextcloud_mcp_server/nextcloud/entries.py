"""Files and folders, read from DAV responses."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Final, NamedTuple

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud import dav, error_mapping, memory_permit, multistatus, remarks
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.multistatus import DavResponse
from nextcloud_mcp_server.nextcloud.version import Version

#: The properties of a list row. No etag, because each property takes a tenth of a long list's time; but the resource
#: type, because the trailing slash of a folder's href is only a SHOULD (RFC 4918 §5.2).
ROW: Final = (
    "d:resourcetype",
    "d:getcontenttype",
    "d:getlastmodified",
    "oc:size",
    "oc:favorite",
    "nc:is-encrypted",
)
#: The properties that must be unchanged before a file is overwritten.
STATE: Final = (*ROW, "d:getetag")
#: All properties that `info` returns.
DETAILS: Final = (
    *STATE, "d:getcontentlength", "d:quota-available-bytes", "d:quota-used-bytes", "oc:fileid",
    "oc:permissions",
    "oc:owner-display-name", "oc:share-types", "nc:sharees", "nc:system-tags", "oc:tags",
    "nc:contained-folder-count", "nc:contained-file-count",
)  # fmt: skip

# Computed once: a long list uses these thousands of times.
_KIND: Final = dav.name("d:resourcetype")
_COLLECTION: Final = dav.name("d:collection")
_SIZE: Final = dav.name("oc:size")
_LENGTH: Final = dav.name("d:getcontentlength")
_TYPE: Final = dav.name("d:getcontenttype")
_MODIFIED: Final = dav.name("d:getlastmodified")
_ETAG: Final = dav.name("d:getetag")
_FAVORITE: Final = dav.name("oc:favorite")
_ENCRYPTED: Final = dav.name("nc:is-encrypted")

_MONTHS: Final = {
    "Jan": "01", "Feb": "02", "Mar": "03", "Apr": "04", "May": "05", "Jun": "06",
    "Jul": "07", "Aug": "08", "Sep": "09", "Oct": "10", "Nov": "11", "Dec": "12",
}  # fmt: skip


#: An answer, and the place in a tree that it is about.
Located = tuple[dav.Segments, DavResponse]


@dataclass(frozen=True, slots=True)
class Details:
    """The properties that only `info` requests."""

    file_id: str
    permissions: str
    owner: str
    share_types: tuple[str, ...]
    shared_with: tuple[str, ...]
    tags: tuple[str, ...]
    quota_used: int | None
    quota_available: int | None
    folders_inside: int | None
    files_inside: int | None


class Entry(NamedTuple):
    """A file or folder of one user."""

    segments: dav.Segments
    is_folder: bool
    size: int | None
    content_type: str
    modified_at: datetime | None
    etag: str | None
    favourite: bool
    #: An end-to-end encrypted folder: Nextcloud opens it only to the apps of its owner.
    encrypted: bool = False

    @property
    def name(self) -> str:
        """The last part of the path, empty for the top folder."""
        return self.segments[-1] if self.segments else ""

    @property
    def path(self) -> str:
        """The path as tools take and show it."""
        return dav.join(self.segments)

    @property
    def version(self) -> Version:
        """Its state, compared before it is overwritten."""
        return Version.of(self.etag, self.size, self.modified_at)


def entry_of(segments: dav.Segments, response: DavResponse) -> Entry:
    """Read an entry; missing or invalid properties are unknown."""
    texts = response.texts
    size = number(texts.get(_SIZE, ""))
    kinds = response.inner.get(_KIND)
    return Entry(
        segments,
        kinds is not None and any(tag == _COLLECTION for tag, _ in kinds),
        number(texts.get(_LENGTH, "")) if size is None else size,
        texts.get(_TYPE, ""),
        http_date(texts.get(_MODIFIED, "")),
        etags.parse(texts.get(_ETAG, "")),
        texts.get(_FAVORITE) == "1",
        texts.get(_ENCRYPTED) == "1",
    )


def details_of(response: DavResponse) -> Details:
    """Read the details."""
    return Details(
        file_id=response.text("oc:fileid"),
        permissions=response.text("oc:permissions"),
        owner=response.text("oc:owner-display-name"),
        share_types=tuple(response.inner_texts("oc:share-types", "oc:share-type")),
        shared_with=tuple(response.inner_texts("nc:sharees", "nc:display-name")),
        tags=(
            *response.inner_texts("nc:system-tags", "nc:system-tag"),
            *response.inner_texts("oc:tags", "oc:tag"),
        ),
        quota_used=number(response.text("d:quota-used-bytes")),
        quota_available=number(response.text("d:quota-available-bytes")),
        folders_inside=number(response.text("nc:contained-folder-count")),
        files_inside=number(response.text("nc:contained-file-count")),
    )


def number(text: str) -> int | None:
    """Parse an integer, such as a size, or the `-3` of an unlimited quota; None if invalid."""
    return untrusted.integer(text.strip())


def http_date(text: str) -> datetime | None:
    """Parse an HTTP date; None when it is missing or invalid."""
    try:
        if text[25:] == " GMT":
            # The one form that HTTP servers write (RFC 9110 §5.6.7), as in `Fri, 27 Nov 2026 21:03:53 GMT`; a long
            # list has thousands of them.
            return datetime.fromisoformat(f"{_day(text[5:16])}T{text[17:25]}+00:00")
        return parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, OverflowError, KeyError):
        return None


@lru_cache(maxsize=512)
def _day(text: str) -> str:
    """Convert `27 Nov 2026` to ISO form; cached, because the files of a folder share their days."""
    return f"{text[7:]}-{_MONTHS[text[3:6]]}-{text[:2]}"


def responses_of(
    response: httpx2.Response,
    chunks: AsyncIterable[bytes] | None = None,
    *,
    sentences: Mapping[int, str] | None = None,
    longest: int = multistatus.MAX_RESPONSE_BYTES,
) -> AsyncGenerator[list[DavResponse]]:
    """Parse a multistatus while it arrives; `chunks` is its body, where that was begun.

    An error document that follows it is raised as its status would be.
    """
    refused = partial(error_mapping.from_second_document, response=response, sentences=sentences or {})
    return multistatus.read(chunks or response.aiter_bytes(), longest=longest, refused=refused)


@asynccontextmanager
async def _in_turn(
    opened: Callable[[], AbstractAsyncContextManager[httpx2.Response]], uid: str
) -> AsyncGenerator[tuple[httpx2.Response, AsyncIterable[bytes]]]:
    """Open a response; a large one when it is its turn.

    A list that has to wait is broken off and requested again, so that it keeps neither a connection nor its beginning.
    """
    with memory_permit.ListTurn(uid) as turn:
        async with opened() as response:
            chunks = response.aiter_bytes()
            beginning = await _beginning(chunks)
            if len(beginning) <= memory_permit.LARGE_LIST_BYTES or turn.take_now():
                yield response, _joined(beginning, chunks)
                return
            del beginning
        await turn.take()
        async with opened() as response:
            yield response, response.aiter_bytes()


async def _beginning(chunks: AsyncIterable[bytes]) -> bytes:
    """Read a list up to the size from which it is large; a shorter one completely."""
    read = bytearray()
    async for chunk in chunks:
        read += chunk
        if len(read) > memory_permit.LARGE_LIST_BYTES:
            break
    return bytes(read)


async def _joined(beginning: bytes, rest: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    yield beginning
    async for chunk in rest:
        yield chunk


@asynccontextmanager
async def ask(
    http: NextcloudHttp,
    method: str,
    tree: dav.Tree,
    segments: dav.Segments = (),
    *,
    body: bytes,
    url: str = "",
    headers: Mapping[str, str] | None = None,
    sentences: Mapping[int, str] | None = None,
    longest: int = multistatus.MAX_RESPONSE_BYTES,
) -> AsyncGenerator[AsyncGenerator[Located]]:
    """Send one DAV request and give the answers about this tree one by one; reads every DAV list.

    `url` is only given where it is not that of the segments. Answers about other places are left out, which a remark
    says.

    Raises:
      NotNextcloud: The response has answers, and all of them are about other places.
    """
    sent, url = {**dav.XML_HEADERS, **(headers or {})}, url or tree.url(segments)
    opened = partial(http.stream, method, url, headers=sent, content=body, sentences=sentences)
    async with (
        _in_turn(opened, http.uid) as (response, chunks),
        aclosing(responses_of(response, chunks, sentences=sentences, longest=longest)) as batches,
        aclosing(_inside(tree, batches, {response.url.host, http.base.host, http.web.host})) as found,
    ):
        yield found


async def _inside(
    tree: dav.Tree, batches: AsyncIterable[list[DavResponse]], hosts: Collection[str]
) -> AsyncGenerator[Located]:
    named = left_out = 0
    async for responses in batches:
        named += len(responses)
        for each in responses:
            segments = tree.locate(each.href, hosts=hosts)
            if segments is None:
                left_out += 1
            else:
                yield segments, each
    if left_out and left_out == named:
        raise errors.NotNextcloud(
            f"Nextcloud's answer names {named} {'things' if named > 1 else 'thing'}, but under another host name "
            "or path than it was asked for, so nothing of it can be shown. The administrator should check "
            "overwritehost and overwritewebroot in Nextcloud's config.php, and the proxy in front of it."
        )
    if left_out:
        remarks.add(
            f"{left_out} of {named} entries of Nextcloud's answer are left out: they are named under another host "
            "name or path than was asked for."
        )

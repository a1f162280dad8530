"""The tool that reads a file: as text, as the text of a document, or as an image."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from pydantic import Field

from nextcloud_mcp_server.documents import charset, kinds
from nextcloud_mcp_server.documents.charset import Charset
from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.byte_range import Chunk
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.tools import file_text, file_words
from nextcloud_mcp_server.tools.documents import Documents, DocumentText
from nextcloud_mcp_server.tools.file_results import NO_ETAG, FileFacts, FileImage, FileText, shown_as
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

#: About 700 kB in base64, which common clients still accept in one result.
MAX_IMAGE_BYTES: Final = 524_288

reading = Toolset("files")


@reading.tool("Read a file", read_only=True, long=True)
@require_provisioning("files:read")
async def nc_files_read_file(
    nc: Account,
    path: str,
    *,
    offset: Annotated[int, Field(ge=0, le=2**53, description="In bytes of the text.")] = 0,
    limit: Annotated[int, Field(ge=1, le=file_text.MAX_TEXT_BYTES)] = file_text.MAX_TEXT_BYTES,
    raw: Annotated[bool, Field(description="HTML, RTF or e-mail as stored.")] = False,
    progress: Progress,
    documents: Documents,
) -> FileText | FileImage | FileFacts:
    """Read text, also of PDF, Office, OpenDocument, EPUB, HTML, e-mail (go on at next_offset), or see a picture.

    The etag in the answer is what changing the file asks for.
    """

    async def text_of(kind: Kind) -> FileText | FileFacts:
        found = await documents.text(nc, path, kind, progress)
        return _document(found, offset=offset, limit=limit)

    if kind := _document_kind(kinds.by_name(path), raw=raw):
        return await text_of(kind)
    length = limit + file_text.LOOKAHEAD
    if offset == 0:
        length = max(length, charset.SAMPLE_BYTES)
    if offset == 0 and path.lower().endswith(file_words.IMAGE_NAMES):
        length = MAX_IMAGE_BYTES
    chunk = await nc.files.read(path, offset=offset, length=length)
    return await _shown(nc, chunk, text_of, limit=limit, raw=raw)


def _document_kind(kind: Kind | None, *, raw: bool) -> Kind | None:
    """Return the kind of document, or None where the stored content is wanted."""
    return None if raw and kind in kinds.TEXTS else kind


async def _shown(
    nc: Account,
    chunk: Chunk,
    text_of: Callable[[Kind], Awaitable[FileText | FileFacts]],
    *,
    limit: int,
    raw: bool,
) -> FileText | FileImage | FileFacts:
    """Return a part of a file as text, image or facts, according to its content."""
    start = chunk.data if chunk.offset == 0 else b""
    if picture := file_words.image(start):
        if not chunk.is_last:
            return await _preview(nc, chunk)
        return _picture(chunk, picture, chunk.data, size=len(chunk.data))
    if kind := _document_kind(kinds.by_content(chunk.content_type, start), raw=raw):
        return await text_of(kind)
    if found := await file_text.charset_of(nc, chunk):
        part = file_text.cut(
            chunk.data, limit=limit, offset=chunk.offset, is_last=chunk.is_last, charset=found
        )
        if part is not None:
            return _text(chunk, part, found)
    if chunk.content_type.startswith("image/"):
        return await _preview(nc, chunk)
    return FileFacts.of(chunk, _unreadable(chunk))


def _unreadable(chunk: Chunk) -> str:
    size = _size(chunk.total)
    if name := kinds.outdated(chunk.path, chunk.content_type):
        return (
            f"This is a {name} of {size} bytes; its text can't be read. Saved in the present format, it can."
        )
    return f"This is a binary file of {size} bytes; it can't be read here."


def _size(total: int | None) -> str:
    return "an unknown number of" if total is None else str(total)


def _picture(
    chunk: Chunk, mime_type: str, data: bytes, *, size: int | None, note: str | None = None
) -> FileImage:
    return FileImage(
        mime_type=mime_type,
        data=data,
        path=chunk.path,
        size=size,
        modified=chunk.version.modified_at,
        etag=str(chunk.version),
        shown_as=shown_as(chunk.path),
        note=note,
    )


async def _preview(nc: Account, chunk: Chunk) -> FileImage | FileFacts:
    """Return a preview of an image that is too large, or of a type that clients cannot show."""
    about = f"This is a picture of {_size(chunk.total)} bytes"
    _, details = await nc.files.details(chunk.path)
    preview = await nc.download.preview(details.file_id, max_bytes=MAX_IMAGE_BYTES)
    mime_type = file_words.image(preview.data) if preview else None
    if preview is None or mime_type is None:
        return FileFacts.of(
            chunk, f"{about}, which can't be shown here, and Nextcloud made no smaller one of it."
        )
    note = f"{about}; what is shown is a preview of it, at most {preview.edge} pixels wide and high."
    return _picture(chunk, mime_type, preview.data, size=chunk.total, note=note)


def _document(found: DocumentText, *, offset: int, limit: int) -> FileText | FileFacts:
    """Return a page of a document's text, or why there is none."""
    version, text = found.version, found.extract.text if found.extract else b""
    if not found.readable:
        return FileFacts.about(found.path, found.content_type, version, found.note, size=version.size)
    if offset >= len(text):
        raise InvalidInput(f"The text of {quoted(found.path)} ends before byte {offset}.")
    data = text[offset : offset + limit + file_text.LOOKAHEAD]
    rest = offset + len(data) == len(text)
    part = file_text.page(data, limit=limit, offset=offset, is_last=rest)
    end = offset + part.end
    return FileText(
        content=part.text,
        path=found.path,
        type=found.content_type,
        size=version.size,
        text_size=len(text),
        modified=version.modified_at,
        etag=str(version),
        offset=offset + part.start,
        truncated=end < len(text),
        next_offset=end if end < len(text) else None,
        shown_as=shown_as(found.path),
        note=found.note,
    )


def _text(chunk: Chunk, part: file_text.Part, found: Charset) -> FileText:
    end = chunk.offset + part.end
    truncated = not chunk.is_last or part.end < len(chunk.data)
    notes = (
        "" if part.exact else f"Bytes that are not {found.label} are shown as \ufffd.",
        "" if chunk.version.etag else NO_ETAG,
    )
    return FileText(
        content=part.text,
        path=chunk.path,
        type=chunk.content_type or "text/plain",
        encoding=found.label,
        size=chunk.total,
        modified=chunk.version.modified_at,
        etag=str(chunk.version),
        offset=chunk.offset + part.start,
        truncated=truncated,
        next_offset=end if truncated else None,
        shown_as=shown_as(chunk.path),
        note=" ".join(filter(None, notes)) or None,
    )

"""Tools for files that are too large for one call: in chunks, or from and to the local folder."""

from typing import Annotated, Final, Literal

import anyio
from pydantic import Field

from nextcloud_mcp_server.apps.upload.client import Report, UploadClient
from nextcloud_mcp_server.errors import InvalidInput, NextcloudError
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.files import Written
from nextcloud_mcp_server.nextcloud.ids import TextId
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.file_content import Encoding, TargetEtag, decoded
from nextcloud_mcp_server.tools.file_results import NO_ETAG
from nextcloud_mcp_server.tools.local_folder import LocalFolder
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

#: Up to this size one request is faster than four.
SINGLE_BYTES: Final = 4_194_304
#: How many bytes are downloaded between two progress reports.
_REPORTED_BYTES: Final = 4_194_304

upload = Toolset("upload")


class Uploaded(Result):
    """What an upload left behind: a file with its etag, or an upload to go on with at `offset`."""

    path: str
    upload_id: str | None = None
    offset: int | None = None
    etag: str | None = None
    size: int | None = None
    created: bool | None = None
    note: str | None = None

    @classmethod
    def by_writing(cls, written: Written) -> "Uploaded":
        """Build from a file that is complete."""
        version = written.version
        return cls(
            path=written.path,
            etag=str(version),
            size=version.size,
            created=written.created,
            note=None if version.etag else NO_ETAG,
        )


class Downloaded(Result):
    """Where a file was saved on this computer."""

    path: str
    local_file: str
    size: int
    etag: str


@upload.tool("Upload a large file", destructive=True, long=True)
@require_provisioning("files:write")
async def nc_files_upload_file(
    nc: Account,
    path: str,
    *,
    content: Annotated[str | None, Empty("an empty file or part")] = None,
    encoding: Encoding = "text",
    local_file: Annotated[str | None, Field(description="Name in the folder the operator opened.")] = None,
    upload_id: TextId | None = None,
    offset: Annotated[int, Field(ge=0, description="Bytes sent before.")] = 0,
    then: Literal["more", "finish", "discard"] = "finish",
    etag: TargetEtag = None,
    progress: Progress,
    local_folder: LocalFolder,
) -> Uploaded:
    """Write a file too large for one call: parts of content with then="more", going on with upload_id and offset.

    Or send a local_file of any size from this computer; the file appears when all of it is there.
    """
    if local_file is not None or upload_id is not None:
        # With another source of the content, "" means that none was given, as it does after earlier chunks.
        content = content or None
    if local_file is not None:
        if content is not None or upload_id is not None or then != "finish":
            raise InvalidInput("A 'local_file' is sent as a whole: leave out content, upload_id and then.")
        return await _local(nc, path, local_file, etag=etag, progress=progress, local_folder=local_folder)
    if upload_id is not None and then == "discard":
        await nc.client(UploadClient).requests.discard(upload_id)
        return Uploaded(path=path.strip("/"), note="What was sent is thrown away; no file was changed.")
    if then == "discard":
        raise InvalidInput("Pass the upload_id of what is to be thrown away.")
    data = None if content is None else decoded(content, encoding)
    if data is None and (upload_id is None or then == "more"):
        raise InvalidInput("Pass a part of the file in 'content', or a 'local_file'.")
    if upload_id is None and then == "finish":
        _refuse_gap(offset, [])
        return Uploaded.by_writing(await nc.files.write(path, data or b"", version=etag))
    return await _part(
        nc,
        path,
        data,
        upload_id=upload_id,
        offset=offset,
        etag=etag,
        last=then == "finish",
        progress=progress,
    )


async def _part(
    nc: Account,
    path: str,
    data: bytes | None,
    *,
    upload_id: str | None,
    offset: int,
    etag: str | None,
    last: bool,
    progress: Progress,
) -> Uploaded:
    completed = [] if upload_id is None else await nc.client(UploadClient).requests.parts(upload_id)
    number = _refuse_gap(offset, completed) if data is not None else 0
    total = offset + len(data) if data is not None else sum(completed)
    if upload_id is None:
        # Checked now, so that a client does not send ten chunks before it learns that the name is taken.
        await nc.client(UploadClient).check(path, total, version=etag)
        upload_id = await nc.client(UploadClient).requests.begin()
        async with nc.client(UploadClient).cleared(upload_id):
            await _put(nc, upload_id, number, data)
        return Uploaded(path=path.strip("/"), upload_id=upload_id, offset=total)
    try:
        target = await nc.client(UploadClient).check(path, total, version=etag) if last else None
        await _put(nc, upload_id, number, data)
    except NextcloudError as error:
        error.args = (
            f"{error} The {sum(completed)} bytes sent before are still there: use the same upload_id.",
        )
        raise
    if target is None:
        return Uploaded(path=path.strip("/"), upload_id=upload_id, offset=total)
    report = _reporter(progress, "Nextcloud puts the parts together")
    return Uploaded.by_writing(
        await nc.client(UploadClient).finish(upload_id, target, total=total, report=report, keep=True)
    )


async def _put(nc: Account, upload_id: str, number: int, data: bytes | None) -> None:
    if data:
        await nc.client(UploadClient).requests.put(upload_id, number, data)


def _refuse_gap(offset: int, completed: list[int]) -> int:
    """Return the number of the chunk at this offset: the next one, or the last one sent again.

    Raises:
      InvalidInput: It would leave a gap, or overwrite a chunk that others follow.
    """
    size = sum(completed)
    if offset == size:
        return len(completed) + 1
    if completed and offset == size - completed[-1]:
        return len(completed)
    raise InvalidInput(f"{size} bytes have arrived: send the part that follows them, with that as offset.")


def _reporter(progress: Progress, words: str) -> Report:
    async def report(done: float, total: float) -> None:
        await progress.report(done, total, words)

    return report


async def _local(
    nc: Account,
    path: str,
    local_file: str,
    *,
    etag: str | None,
    progress: Progress,
    local_folder: LocalFolder,
) -> Uploaded:
    report = _reporter(progress, f"Uploading {local_file}")
    with local_folder.reading(local_file) as source:
        target = await nc.client(UploadClient).check(path, source.size, version=etag)
        if source.size <= SINGLE_BYTES:
            written = await nc.files.write(path, await source.read(source.size), version=etag)
        else:
            written = await nc.client(UploadClient).send(
                target, source.read, total=source.size, report=report
            )
        return Uploaded.by_writing(written)


@upload.tool("Download to this computer", local=True, repeatable=True, long=True)
@require_provisioning("files:read")
async def nc_files_download_file(
    nc: Account,
    path: str,
    *,
    local_file: Annotated[str | None, Field(description="Name to save it under; default: its own.")] = None,
    progress: Progress,
    local_folder: LocalFolder,
) -> Downloaded:
    """Save a file of any size in the folder of this computer that the operator opened; overwrites nothing there."""
    entry = await nc.files.info(path)
    if entry.is_folder:
        raise InvalidInput("That is a folder: download its files one by one.")
    name = local_file or entry.name
    done = reported = 0
    with local_folder.writing(name) as file:
        async with nc.download.open(path, known=entry) as download:
            async for piece in download.pieces:
                await anyio.to_thread.run_sync(file.write, piece)
                done += len(piece)
                if done - reported >= _REPORTED_BYTES:
                    reported = done
                    await progress.report(done, download.total, f"Downloading {name}")
            if download.total is None and entry.size not in (None, done):
                # A proxy that removes the length also hides that the connection broke.
                raise file_errors.broken(done, entry.size, path)
    return Downloaded(path=download.path, local_file=name, size=done, etag=str(download.version))

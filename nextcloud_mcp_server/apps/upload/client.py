"""Uploads large files of one user in chunks: the file appears only when it is complete."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

import anyio

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.upload.chunk_requests import MAX_CHUNKS, ChunkRequests, Target
from nextcloud_mcp_server.nextcloud import dav, file_errors, paths
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.app_client import AppClient, Connection
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.files import FilesClient, Written
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.version import Version

#: The bytes of a file held in memory. Object stores want chunks of at least 5 MiB, proxies small ones.
CHUNK_BYTES: Final = 10_485_760

#: Seconds between checks for a file whose assembly was not answered; afterwards it is requested once more.
_PAUSES: Final = (2.0, 5.0, 10.0, 20.0)
_ASSEMBLIES: Final = 3
_HEARTBEAT_SECONDS: Final = 5.0
_CLEARING_SECONDS: Final = 15.0

#: Errors after which the assembly may still be running; and those after which it certainly is not.
_IN_DOUBT: Final = (errors.Unreachable, errors.Unavailable)
_CERTAIN: Final = (errors.TlsFailed, errors.Maintenance, errors.AccountDisabled, errors.StorageOffline)
#: Seconds to wait before a repeatedly refused chunk is sent again: giving up would lose all earlier chunks.
_PATIENCE: Final = (5.0, 15.0, 30.0)
#: Errors after which a later call may continue the same upload.
_PASSING: Final = (errors.AlreadyExists, errors.EtagMismatch, errors.Locked, errors.StorageFull, *_CERTAIN)
_KEPT: Final = "What was sent is still there: call again with its upload_id, which sends none of it again."
_CLEARED: Final = "No file was changed, and nothing of what was sent is kept."

Report = Callable[[float, float], Awaitable[None]]


class UploadClient(AppClient):
    """Uploads one user's large files."""

    def __init__(
        self,
        http: NextcloudHttp,
        files: FilesClient,
        *,
        pause: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        super().__init__(http)
        self.requests = ChunkRequests(http)
        self._files = files
        self._pause = pause

    @classmethod
    def from_connection(cls, connection: Connection) -> Self:
        """Build the client."""
        return cls(connection.http, FilesClient(connection.http))

    async def check(self, path: str, size: int, *, version: str | None) -> Target:
        """Check that `size` bytes can be stored at a path, before any is sent; two requests.

        Raises:
          AlreadyExists: The name is taken, and no version was given.
          EtagMismatch: It changed since it was read.
          NotFound: The folder, or the file to overwrite, does not exist.
          StorageFull: The quota leaves less.
          InvalidName: Nextcloud rejects the name.
        """
        segments = paths.new(path)
        shown = dav.join(segments)
        replaced = await self._replaced(segments, version)
        try:
            _, details = await self._files.details(dav.join(segments[:-1]))
        except errors.NotFound as error:
            raise errors.NotFound(file_errors.no_folder_for(shown)) from error
        left = details.quota_available
        if left is not None and 0 <= left < size:
            raise errors.StorageFull(
                f"{quoted(shown)} needs {size} bytes and the quota leaves {left}, so nothing was sent: free some "
                "space first."
            )
        return Target(segments, replaced)

    async def _replaced(self, segments: dav.Segments, version: str | None) -> Entry | None:
        shown = dav.join(segments)
        try:
            entry = await self._files.info(shown)
        except errors.NotFound:
            if version is not None:
                raise
            return None
        if version is None or entry.is_folder:
            raise file_errors.taken(shown)
        if not Version.parse(version).agrees_with(entry.version):
            raise file_errors.changed(shown, str(entry.version))
        return entry

    async def send(
        self,
        target: Target,
        read: Callable[[int], Awaitable[bytes]],
        *,
        total: int,
        report: Report,
    ) -> Written:
        """Send a large file in chunks and assemble it; nothing remains after an error or cancellation.

        Raises:
          TooLarge: It has more chunks than Nextcloud accepts.
          StorageFull, Locked, …: Nextcloud refused it.
          TimedOut: All was sent, and Nextcloud has not confirmed the assembly.
        """
        if total > CHUNK_BYTES * MAX_CHUNKS:
            raise errors.TooLarge(
                f"That is larger than the {CHUNK_BYTES * MAX_CHUNKS} bytes that can be uploaded."
            )
        upload_id = await self.requests.begin(target, total=total)
        async with self.cleared(upload_id):
            sent, number = 0, 0
            while sent < total:
                data = await read(min(CHUNK_BYTES, total - sent))
                number += 1
                try:
                    await self._put(upload_id, number, data, target, total=total)
                except errors.StorageFull as error:
                    raise await self._full(error, target, total) from None
                sent += len(data)
                await report(sent, total + _assembly(total))
        return await self.finish(upload_id, target, total=total, report=report)

    async def _put(self, upload_id: str, number: int, data: bytes, target: Target, *, total: int) -> None:
        """Send a chunk, and wait after transient errors: a chunk replaces itself when it is sent again."""
        for seconds in _PATIENCE:
            try:
                await self.requests.put(upload_id, number, data, target, total=total)
            except errors.TlsFailed:
                raise
            except (errors.Locked, errors.Unavailable, errors.Unreachable) as error:
                if isinstance(error, errors.AccountDisabled):
                    raise
                await self._pause(seconds)
            else:
                return
        await self.requests.put(upload_id, number, data, target, total=total)

    @asynccontextmanager
    async def cleared(self, upload_id: str) -> AsyncGenerator[None]:
        """Delete the chunks when the block fails or is cancelled."""
        try:
            yield
        except errors.NextcloudError as error:
            await self._end(upload_id, error, kept=False)
            raise
        except BaseException:  # raised again: cancellation is no `Exception`
            await self._clear(upload_id)
            raise

    async def _end(self, upload_id: str, error: errors.NextcloudError, *, kept: bool) -> None:
        """Delete the upload unless `kept`, and add to the error what remains of it."""
        if not kept:
            await self._clear(upload_id)
        error.args = (f"{error} {_KEPT if kept else _CLEARED}",)

    async def _clear(self, upload_id: str) -> None:
        with (
            anyio.CancelScope(shield=True),
            anyio.move_on_after(_CLEARING_SECONDS),
            # Nextcloud deletes it after a day.
            suppress(errors.NextcloudError),
        ):
            await self.requests.discard(upload_id)

    async def finish(
        self, upload_id: str, target: Target, *, total: int, report: Report, keep: bool = False
    ) -> Written:
        """Assemble the chunks and wait for the result; `keep` keeps them after an error where useful.

        A missing response is no reason to send everything again: the file is looked for, and if it does not appear,
        its assembly is requested once more.

        Raises:
          AlreadyExists, EtagMismatch: The target has changed.
          TimedOut: It may still be assembled.
        """
        doubt = False
        for last in (*(False,) * (_ASSEMBLIES - 1), True):
            try:
                return await self._assemble(upload_id, target, total=total, report=report)
            except _IN_DOUBT as error:
                if isinstance(error, _CERTAIN):
                    await self._end(upload_id, error, kept=keep)
                    raise
                doubt = True
            except errors.NextcloudError as error:
                if doubt and (written := await self._completed(target, total)):
                    return written
                # The lock may be that of its own assembly.
                if not isinstance(error, errors.Locked) or (last and not doubt):
                    await self._end(upload_id, error, kept=keep and isinstance(error, _PASSING))
                    raise
            if written := await self._awaited(target, total, doubt=doubt):
                return written
        raise errors.TimedOut(
            f"Everything was sent, but Nextcloud has not said whether it put {quoted(target.path)} together. Do "
            f"not send it again: look with nc_files_get_info in some minutes; it is there when it has {total} bytes."
        )

    async def _awaited(self, target: Target, total: int, *, doubt: bool) -> Written | None:
        for seconds in _PAUSES:
            await self._pause(seconds)
            if doubt and (written := await self._completed(target, total)):
                return written
        return None

    async def _assemble(self, upload_id: str, target: Target, *, total: int, report: Report) -> Written:
        try:
            async with self._heartbeat(total, report):
                response = await self.requests.assemble(upload_id, target, total=total)
        except errors.StorageFull as error:
            raise await self._full(error, target, total) from None
        etag = etags.of(response.headers)
        written = None if etag else await self._completed(target, total)
        return written or Written(target.path, Version(etag, total), created=target.replaced is None)

    async def _full(self, error: errors.StorageFull, target: Target, total: int) -> errors.StorageFull:
        if error.has_numbers:
            return error
        # Nextcloud answers 507 for forbidden kinds of files as well, so the quota is fetched.
        return errors.StorageFull(f"{error} {await self._files.room(target.segments[:-1], total)}")

    @asynccontextmanager
    async def _heartbeat(self, total: int, report: Report) -> AsyncGenerator[None]:
        """Report progress while Nextcloud is silent: clients cancel calls without progress."""

        async def beat() -> None:
            share = 0.0
            while True:
                await self._pause(_HEARTBEAT_SECONDS)
                share += (1 - share) / 10
                await report(total + share * _assembly(total), total + _assembly(total))

        failure: errors.NextcloudError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            try:
                yield
            except errors.NextcloudError as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _completed(self, target: Target, total: int) -> Written | None:
        """Return the result if the complete file exists in a new version."""
        try:
            entry = await self._files.info(target.path)
        except file_errors.NOT_SEEN:
            return None
        before = target.replaced
        if entry.size != total or (before is not None and entry.version == before.version):
            return None
        return Written(target.path, entry.version, created=before is None)


def _assembly(total: int) -> float:
    """Return the progress units of the assembly, relative to sending so many bytes."""
    return total / 10 + 1

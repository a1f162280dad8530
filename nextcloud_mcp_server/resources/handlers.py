"""Handles the MCP requests about resources; reading a resource asks for consent like a tool.

Listing and completion never ask: clients list at their start, when the user has not requested anything.
"""

import base64
import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Annotations,
    BlobResourceContents,
    CallToolResult,
    CompleteResult,
    Completion,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)
from pydantic import ConfigDict, TypeAdapter

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.errors import InvalidInput, NextcloudMcpError, NotFound
from nextcloud_mcp_server.nextcloud import remarks
from nextcloud_mcp_server.protocol import icons, wire
from nextcloud_mcp_server.resources.catalogue import Catalogue, Ctx
from nextcloud_mcp_server.resources.kind import (
    LONGEST_VALUE,
    MAX_VALUES,
    Contents,
    Kind,
    Listed,
    Page,
    Reader,
    Typed,
)
from nextcloud_mcp_server.tools.answer import one_line, refusal, safe
from nextcloud_mcp_server.tools.guard import Call, Guard, Job
from nextcloud_mcp_server.tools.state import State

logger = logging.getLogger(__name__)

_CURSOR = TypeAdapter(tuple[str, str | None], config=ConfigDict(defer_build=True, strict=True))


class Resources:
    """The resources of the caller."""

    def __init__(self, catalogue: Catalogue, state: State, mcp: MCPServer[Any]) -> None:
        self._catalogue = catalogue
        self._guard = Guard(state)
        self._documents = state.documents
        self._context = partial(Context[Any, Any], mcp_server=mcp)

    def install(self, server: Server[Any]) -> None:
        """Replace the SDK's handlers, which support neither users nor pages."""
        server.add_request_handler("resources/list", PaginatedRequestParams, self.listed)
        server.add_request_handler("resources/templates/list", PaginatedRequestParams, self.templates)
        server.add_request_handler("resources/read", ReadResourceRequestParams, self.read)

    async def templates(self, ctx: Ctx, _: PaginatedRequestParams) -> ListResourceTemplatesResult:
        """List the URI templates."""
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    uri_template=kind.about.template,
                    name=kind.about.name,
                    title=kind.about.title,
                    description=kind.about.description,
                    mime_type=kind.about.mime_type,
                    icons=icons.of(kind.about.toolset) if wire.takes_icons(ctx.protocol_version) else None,
                )
                for kind in self._catalogue.shown(ctx)
                if kind.about.argument
            ]
        )

    async def listed(self, ctx: Ctx, params: PaginatedRequestParams) -> ListResourcesResult:
        """List one page: of the kind where the last page ended, or of the next kind with resources."""
        name, inner = _read_cursor(params.cursor)
        call = await self._guard.call(self._context(request_context=ctx), logs.current_request_id())
        usable = await self._usable(ctx, call)
        names = [kind.about.name for kind in usable]
        if name is not None and name not in names:
            raise _bad_cursor()
        for kind in usable[names.index(name) if name else 0 :]:
            page = await self._page(call, kind, inner)
            inner = None
            following = page.cursor and _write_cursor(kind.about.name, page.cursor)
            if not following and kind is not usable[-1]:
                following = _write_cursor(names[names.index(kind.about.name) + 1], None)
            if page.rows or page.cursor or not following:
                return ListResourcesResult(resources=[_row(one) for one in page.rows], next_cursor=following)
        return ListResourcesResult(resources=[])

    async def read(
        self, ctx: Ctx, params: ReadResourceRequestParams
    ) -> ReadResourceResult | InputRequiredResult:
        """Read one resource, or ask for the access that it requires.

        Raises:
          MCPError: With a sentence; it has the link for a client that cannot show a page.
        """
        uri, request_id = str(params.uri), logs.current_request_id()
        try:
            kind, value = self._catalogue.find(ctx, uri)
            context = self._context(request_context=ctx, input_params=params)
            call = await self._guard.call(context, request_id)
            reader = Reader(self._documents, call.progress)
            job = self._job(kind, kind.about.action, uri, partial(kind.read, value=value, reader=reader))
            with remarks.collected() as said:
                answer = await self._guard.through(call, partial(self._guard.run, call, job))
        except NextcloudMcpError as error:
            code = INVALID_PARAMS if isinstance(error, (NotFound, InvalidInput)) else INTERNAL_ERROR
            raise MCPError(code, _reading(refusal(str(error), error.link)), {"uri": uri}) from None
        except MCPError:
            raise
        except Exception:  # the boundary, as for tools: the client gets the next step, the log the details
            logger.exception("reading a resource failed; reference %s", request_id)
            sentence = (
                f"Something went wrong inside the server; it is logged under {request_id}. Try once more."
            )
            raise MCPError(INTERNAL_ERROR, sentence, {"uri": uri}) from None
        if isinstance(answer, CallToolResult):
            raise MCPError(INTERNAL_ERROR, _words(answer), {"uri": uri})
        return answer if isinstance(answer, InputRequiredResult) else _contents(uri, answer, said)

    async def complete(self, ctx: Ctx, template: str, typed: Typed) -> CompleteResult:
        """Return completions of a value; none for a user without consent, nor for more than any path has."""
        if len(typed.value) > LONGEST_VALUE:
            return CompleteResult(completion=Completion(values=[], has_more=False))
        call = await self._guard.call(self._context(request_context=ctx), logs.current_request_id())
        for kind in await self._usable(ctx, call):
            if kind.about.template == template:
                job = self._job(kind, kind.about.listing, "", partial(kind.complete, typed=typed))
                found: list[str] = []
                try:
                    found += await self._guard.run(call, job)
                except NextcloudMcpError as error:
                    logger.info("nothing to complete with: %s", error)
                more = len(found) > MAX_VALUES
                return CompleteResult(
                    completion=Completion(values=[safe(one) for one in found[:MAX_VALUES]], has_more=more)
                )
        return CompleteResult(completion=Completion(values=[], has_more=False))

    async def _page(self, call: Call, kind: Kind, cursor: str | None) -> Page:
        job = self._job(kind, kind.about.listing, "", partial(kind.page, cursor=cursor))
        try:
            return await self._guard.run(call, job)
        except InvalidInput:
            raise _bad_cursor() from None
        except NextcloudMcpError as error:
            # An app that does not answer must not hide the others.
            logger.info("resources are left out of a list: %s", error)
            return Page([])

    def _job(self, kind: Kind, name: str, detail: str, body: Any) -> Job[Any]:  # noqa: ANN401 - of each kind its own
        return Job(
            name=name,
            scopes=kind.about.scopes,
            app=self._catalogue.app_of(kind),
            read_only=True,
            detail=detail[:500],
            body=body,
        )

    async def _usable(self, ctx: Ctx, call: Call) -> list[Kind]:
        """List the kinds that need no further consent."""
        known = await call.services.accounts.connection(call.caller)
        if not known.connected or not known.scopes:
            return []
        return [kind for kind in self._catalogue.shown(ctx) if kind.about.scopes <= known.scopes]


def _row(one: Listed) -> Resource:
    modified = one.modified and Annotations(last_modified=one.modified.isoformat().replace("+00:00", "Z"))
    # The title of an event or the name of a contact may be a consent link.
    name = one_line(one.name)
    return Resource(
        uri=one.uri,
        name=name,
        title=name,
        mime_type=one.mime_type,
        size=one.size,
        annotations=modified,
    )


def _contents(uri: str, found: Contents, said: Sequence[str]) -> ReadResourceResult:
    """Return the content of a resource, with remarks as a separate part: the content itself is unchanged."""
    contents: list[TextResourceContents | BlobResourceContents] = []
    if isinstance(found.data, bytes):
        blob = base64.b64encode(found.data).decode("ascii")
        contents.append(BlobResourceContents(uri=uri, blob=blob, mime_type=found.mime_type))
    else:
        text = safe(found.data)
        contents.append(TextResourceContents(uri=uri, text=text, mime_type=found.mime_type))
    if said:
        words = "\n".join(map(one_line, said))
        contents.append(TextResourceContents(uri=f"{uri}#remarks", text=words, mime_type="text/plain"))
    return ReadResourceResult(contents=contents)


def _words(answer: CallToolResult) -> str:
    return _reading("".join(block.text for block in answer.content if isinstance(block, TextContent)))


def _reading(said: str) -> str:
    # There was no tool call here.
    return said.replace("call the tool again", "read this again")


def _write_cursor(name: str, inner: str | None) -> str:
    return base64.urlsafe_b64encode(json.dumps([name, inner]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str | None) -> tuple[str | None, str | None]:
    if not cursor:
        # Some clients send "" for the first page.
        return None, None
    try:
        name, inner = _CURSOR.validate_json(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError:
        raise _bad_cursor() from None
    return name, inner


def _bad_cursor() -> MCPError:
    return MCPError(INVALID_PARAMS, "That cursor does not belong to this list; list again without one.")

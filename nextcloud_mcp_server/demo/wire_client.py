"""An MCP client that writes JSON-RPC itself, so that every message can be shown as it was received.

The SDK's client answers elicitations itself and cannot declare every capability. Both protocol versions are here:
with a handshake and a session (2025-11-25), and without either (2026-07-28).
"""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from importlib.metadata import version
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskStatus

from nextcloud_mcp_server.errors import NotAsPromised

#: One JSON-RPC message, or a part of one.
Message = dict[str, Any]

HANDSHAKE_VERSION = "2025-11-25"
STATELESS_VERSION = "2026-07-28"

#: The client capability of SEP-1036's draft.
DRAFT_EXTENSION = "io.github.nextcloud-mcp-server/elicitation-track"

_ACCEPT = "application/json, text/event-stream"
_VERSION_HEADER = "MCP-Protocol-Version"
_SESSION_HEADER = "Mcp-Session-Id"
_META = "io.modelcontextprotocol/"


class WireClient(ABC):
    """Sends requests, stores notifications, and passes on each one as it arrives."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        url: str,
        *,
        capabilities: Mapping[str, Any],
        name: str = "Demo assistant",
    ) -> None:
        self._http = http
        self._url = url
        self._capabilities = dict(capabilities)
        self._info = {"name": name, "version": version("nextcloud-mcp-server")}
        self._last_id = 0
        self.notices: list[Message] = []
        self.on_notice: Callable[[Message], None] | None = None

    @abstractmethod
    async def open(self) -> Message:
        """Fetch the server's information and capabilities."""

    async def listen(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Receive notifications outside of requests, until cancelled or the server ends the stream."""
        headers = {**self._headers("", {}), "Accept": "text/event-stream"}
        async with self._http.stream("GET", self._url, headers=headers, timeout=None) as response:
            task_status.started()
            async for one in _messages(response):
                self._take(one)

    @abstractmethod
    def _headers(self, method: str, params: Message) -> dict[str, str]:
        """Return the headers of a request."""

    @abstractmethod
    def _params(self, params: Message) -> Message:
        """Return the parameters with those of every request added."""

    async def request(self, method: str, params: Message) -> Message:
        """Send one request and wait for its response, a result or an error.

        Raises:
          NotAsPromised: The response is not one to the request.
        """
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": self._params(params)}
        return await self._post(message, self._last_id, self._headers(method, params))

    async def refused(self, method: str, params: Message) -> tuple[int, str]:
        """Send one request that the server rejects as unauthorized; return the status and the challenge."""
        message = {"jsonrpc": "2.0", "id": 0, "method": method, "params": self._params(params)}
        answer = await self._http.post(self._url, json=message, headers=self._headers(method, params))
        return answer.status_code, answer.headers.get("WWW-Authenticate", "")

    async def _post(self, message: Message, request_id: int, headers: dict[str, str]) -> Message:
        answer: Message | None = None
        async with self._http.stream("POST", self._url, json=message, headers=headers) as response:
            self._take_session(response)
            # Read to the end: the server ends the stream after the response.
            async for one in _messages(response):
                if one.get("id") == request_id:
                    answer = one
                else:
                    self._take(one)
        if answer is None:
            raise NotAsPromised(
                f"The server gave no answer to {message['method']} (status {response.status_code})."
            )
        return answer

    @abstractmethod
    def _take_session(self, response: httpx2.Response) -> None:
        """Store what later requests must repeat."""

    def _take(self, notice: Message) -> None:
        self.notices.append(notice)
        if self.on_notice is not None:
            self.on_notice(notice)


class HandshakeClient(WireClient):
    """Begins with a handshake and has a session, as clients up to 2025-11-25 do."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        url: str,
        *,
        capabilities: Mapping[str, Any],
        name: str = "Demo assistant",
    ) -> None:
        super().__init__(http, url, capabilities=capabilities, name=name)
        self._session: dict[str, str] = {}

    async def open(self) -> Message:
        """Perform the handshake and return the initialize result."""
        answer = await self.request(
            "initialize",
            {
                "protocolVersion": HANDSHAKE_VERSION,
                "capabilities": self._capabilities,
                "clientInfo": self._info,
            },
        )
        result: Message = answer["result"]
        self._session[_VERSION_HEADER] = result["protocolVersion"]
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._http.post(self._url, json=initialized, headers=self._headers("", {}))
        return result

    def _headers(self, method: str, params: Message) -> dict[str, str]:
        del method, params
        return {"Accept": _ACCEPT, **self._session}

    def _params(self, params: Message) -> Message:
        return params

    def _take_session(self, response: httpx2.Response) -> None:
        if _SESSION_HEADER in response.headers:
            self._session[_SESSION_HEADER] = response.headers[_SESSION_HEADER]


class StatelessClient(WireClient):
    """Sends its information and capabilities with every request (2026-07-28)."""

    async def open(self) -> Message:
        """Fetch the server's information and capabilities; other requests do not depend on it."""
        answer = await self.request("server/discover", {})
        result: Message = answer["result"]
        return result

    def _headers(self, method: str, params: Message) -> dict[str, str]:
        headers = {"Accept": _ACCEPT, _VERSION_HEADER: STATELESS_VERSION, "Mcp-Method": method}
        return headers | ({"Mcp-Name": params["name"]} if "name" in params else {})

    def _params(self, params: Message) -> Message:
        meta = {
            f"{_META}protocolVersion": STATELESS_VERSION,
            f"{_META}clientInfo": self._info,
            f"{_META}clientCapabilities": self._capabilities,
        }
        return {**params, "_meta": {**params.get("_meta", {}), **meta}}

    def _take_session(self, response: httpx2.Response) -> None:
        """Do nothing: there is no session."""


async def _messages(response: httpx2.Response) -> AsyncIterator[Message]:
    """Yield the messages of a response, either one JSON document or a stream of events."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    if kind == "application/json":
        yield json.loads(await response.aread())
    elif kind == "text/event-stream":
        data: list[str] = []
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                data.append(line.removeprefix("data:").strip())
            elif not line and (text := "\n".join(data)):
                data.clear()
                yield json.loads(text)

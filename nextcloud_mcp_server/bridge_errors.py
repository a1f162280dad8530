"""What the bridge and the client of other servers raise on purpose.

The texts begin as other MCP clients word them.

    BridgeError
    ├── ServerUnknown
    ├── ToolUnknown
    ├── TransportFailed
    │   └── AnswerUnreadable
    ├── AnswerLate
    ├── ProtocolVersionRefused
    ├── AuthorizationFailed
    ├── ElicitationFailed
    ├── CallNotAllowed
    └── TaskFailed
"""

from nextcloud_mcp_server.error_root import NextcloudMcpError


class BridgeError(NextcloudMcpError):
    """Another MCP server, or the way to it, did not do what the bridge or the client asked."""


class ServerUnknown(BridgeError):
    """The configuration has no server of that name."""


class ToolUnknown(BridgeError):
    """The server lists no tool of that name."""


class TransportFailed(BridgeError):
    """A server could not be started or reached, or the connection to it broke."""


class AnswerUnreadable(TransportFailed):
    """A server answered with something that is not MCP, or with too much of it."""


class AnswerLate(BridgeError):
    """A server did not answer within the time limit."""


class ProtocolVersionRefused(BridgeError):
    """A server speaks only protocol versions that this program does not."""


class AuthorizationFailed(BridgeError):
    """A server asks for an authorization that could not be obtained."""


class ElicitationFailed(BridgeError):
    """A server's question to the user could not be asked, or was not answered."""


class CallNotAllowed(BridgeError):
    """The permissions forbid a call, or the user did."""


class TaskFailed(BridgeError):
    """A task at a server failed or was cancelled."""

"""Everything this program raises on purpose, as one tree.

Messages are sentences for a user or a model: what happened, what to do next. They never hold a
secret, a header, or a URL that grants something. `bridge_errors` draws those of the bridge.

    NextcloudMcpError
    ├── ConfigurationError
    ├── InvalidInput
    │   └── FormRefused
    │       └── NoCookies
    ├── ElicitationRequired
    ├── ElicitationUnknown
    ├── ConsentDeclined
    ├── NotConnected
    ├── MissingScope
    ├── TokenTooNarrow
    ├── TokenRefused
    ├── IssuerUnavailable
    ├── SignInRefused
    │   ├── AlreadyAnswered
    │   ├── OtherBrowser
    │   └── NotAMember
    ├── OtherPerson
    ├── OAuthRefusal
    │   └── DocumentRefusal
    ├── AuthorizeRefused
    │   ├── ClientUnknown
    │   ├── ClientBarred
    │   ├── DocumentsOff
    │   ├── DocumentUnreachable
    │   ├── DocumentTimedOut
    │   ├── DocumentUnfit
    │   └── DocumentHostRefused
    ├── TooManyRequests
    ├── NotAsPromised
    ├── StorageError
    │   ├── ForeignDatabase
    │   ├── StorageUnavailable
    │   └── Unsealable
    └── NextcloudError
        ├── Unreachable
        │   ├── TimedOut
        │   └── TlsFailed
        ├── NotNextcloud
        ├── TooOld
        ├── CredentialRejected
        ├── GrantRefused
        │   └── MalformedCode
        ├── GrantDead
        ├── ProgramRefused
        ├── LoginFlowOff
        ├── Forbidden
        │   └── RouteRefused
        ├── NotFound
        ├── Conflict
        │   └── AlreadyExists
        ├── EtagMismatch
        ├── Locked
        ├── Throttled
        ├── InvalidName
        ├── OutOfRange
        ├── ServerFault
        ├── Unavailable
        │   ├── Maintenance
        │   ├── AccountDisabled
        │   └── StorageOffline
        ├── StorageFull
        ├── TooLarge
        └── WrongAccount
            └── AccountTaken
"""

from nextcloud_mcp_server.bridge_errors import AnswerLate as AnswerLate
from nextcloud_mcp_server.bridge_errors import AnswerUnreadable as AnswerUnreadable
from nextcloud_mcp_server.bridge_errors import AuthorizationFailed as AuthorizationFailed
from nextcloud_mcp_server.bridge_errors import BridgeError as BridgeError
from nextcloud_mcp_server.bridge_errors import CallNotAllowed as CallNotAllowed
from nextcloud_mcp_server.bridge_errors import ElicitationFailed as ElicitationFailed
from nextcloud_mcp_server.bridge_errors import ProtocolVersionRefused as ProtocolVersionRefused
from nextcloud_mcp_server.bridge_errors import ServerUnknown as ServerUnknown
from nextcloud_mcp_server.bridge_errors import TaskFailed as TaskFailed
from nextcloud_mcp_server.bridge_errors import ToolUnknown as ToolUnknown
from nextcloud_mcp_server.bridge_errors import TransportFailed as TransportFailed
from nextcloud_mcp_server.error_root import Link as Link
from nextcloud_mcp_server.error_root import NextcloudMcpError as NextcloudMcpError


class ConfigurationError(NextcloudMcpError):
    """The operator's settings cannot work; names the variable and the fix."""


class InvalidInput(NextcloudMcpError):
    """An argument was refused before any request was made."""


class FormRefused(InvalidInput):
    """A form did not come from our own page in this browser, or is too old."""


class NoCookies(FormRefused):
    """A browser sent none of the cookies that it was given."""


class ElicitationRequired(NextcloudMcpError):
    """A consent request is needed before this call can run.

    The exception's code is the one of SEP-1036's draft. `protocol/wire.py` alone decides which
    wire form a client gets.

    `reused` says that the consent request was open before this call. `unanswered` is a sentence that
    says why the client's own way of asking did not reach the user, so that the link goes out in text.
    """

    code = -32000

    def __init__(self, message: str, *, url: str, elicitation_id: str, reused: bool = False) -> None:
        super().__init__(message)
        self.url = url
        self.elicitation_id = elicitation_id
        self.reused = reused
        self.unanswered = ""


class ElicitationUnknown(NextcloudMcpError):
    """No such elicitation, or it belongs to another user: the two must look the same."""


class ConsentDeclined(NextcloudMcpError):
    """The user said no."""


class NotConnected(NextcloudMcpError):
    """The consent request that a client was sent on has ended, and nothing was allowed."""


class MissingScope(NextcloudMcpError):
    """The operator's settings do not allow what the call needs, so consent cannot help."""


class TokenTooNarrow(NextcloudMcpError):
    """The client's access token does not cover the call; consent cannot help, a new sign-in can."""


class TokenRefused(NextcloudMcpError):
    """The bearer token of an MCP request is not one for us, or not valid any more."""


class IssuerUnavailable(NextcloudMcpError):
    """The identity provider did not answer, or not as one does; `status` is 429 or 5xx if it says so."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class SignInRefused(NextcloudMcpError):
    """A browser came back from a sign-in in a way that is not trusted; nothing was stored."""


class AlreadyAnswered(SignInRefused):
    """A client's request was answered before, on another copy of its page, and gets no second code."""


class OtherBrowser(SignInRefused):
    """A sign-in came back in another browser; it was ended for both, with its session (`sign_in_id`)."""

    sign_in_id = ""


class NotAMember(SignInRefused):
    """A user signed in who is in none of the groups that the operator lets in."""


class OtherPerson(NextcloudMcpError):
    """The browser is signed in as another user than the user this request belongs to."""


class OAuthRefusal(NextcloudMcpError):
    """A client asked our authorization server for what it does not get (RFC 6749 §5.2, RFC 7591 §3.2.2).

    `error` is the code of the answer, such as `invalid_grant`; `description` a sentence for the developer who
    writes the client, which repeats nothing of the request; `status` that of the answer: 400, 401, 503.
    """

    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.status = status


class DocumentRefusal(OAuthRefusal):
    """The document that describes a client could not be used; `reason` is what the user's browser is told."""

    def __init__(
        self, error: str, description: str, *, reason: "type[AuthorizeRefused]", status: int = 400
    ) -> None:
        super().__init__(error, description, status=status)
        self.reason = reason


class AuthorizeRefused(NextcloudMcpError):
    """A client's request cannot be put to a user, and it is not known where an answer would go."""


class ClientUnknown(AuthorizeRefused):
    """The client is not known to this server, or not any more."""


class ClientBarred(AuthorizeRefused):
    """The operator does not let users connect this client."""


class DocumentsOff(AuthorizeRefused):
    """The client is described in a document, and the operator has this server read none."""


class DocumentUnreachable(AuthorizeRefused):
    """The document that describes the client cannot be reached from here."""


class DocumentTimedOut(AuthorizeRefused):
    """The document that describes the client did not come in time."""


class DocumentUnfit(AuthorizeRefused):
    """The document that describes the client came, and is not one of a client that this server works with."""


class DocumentHostRefused(AuthorizeRefused):
    """The document that describes the client is on a host that this server does not ask."""


class TooManyRequests(NextcloudMcpError):
    """A user asks this server more often than it answers."""

    def __init__(self, message: str, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NotAsPromised(NextcloudMcpError):
    """A step of the demo did not turn out as it says."""


class StorageError(NextcloudMcpError):
    """The database cannot be used."""


class ForeignDatabase(StorageError):
    """The database is another program's, a newer version's or none at all: no new try helps."""


class StorageUnavailable(StorageError):
    """The database cannot be used now, as while it restarts or its disk is full; the same may work later."""


class Unsealable(StorageError):
    """A sealed value cannot be opened: its key is missing, or it was moved or changed."""


class NextcloudError(NextcloudMcpError):
    """Nextcloud answered, or failed to, in a way the call cannot go on from.

    `reason` is what Nextcloud itself said, in its words; empty where it said nothing.
    """

    reason: str = ""


class Unreachable(NextcloudError):
    """No connection to the Nextcloud server."""


class TimedOut(Unreachable):
    """The Nextcloud server did not answer in time; a write may or may not have happened."""


class TlsFailed(Unreachable):
    """The certificate of the Nextcloud server was not accepted."""


class NotNextcloud(NextcloudError):
    """Something answered, but not as a Nextcloud does."""


class TooOld(NextcloudError):
    """The Nextcloud server is older than this program supports."""


class CredentialRejected(NextcloudError):
    """401: the stored credential no longer works. Nothing may use it again."""


class GrantRefused(NextcloudError):
    """A code could not be exchanged: it is wrong, used or too old."""


class MalformedCode(GrantRefused):
    """A code cannot be one of this provider's; it was sent nowhere, and counts nowhere."""


class GrantDead(NextcloudError):
    """The refresh token no longer works, for good: the user has to consent again."""


class ProgramRefused(NextcloudError):
    """Nextcloud lets listed programs sign in only, and this one is not listed."""


class LoginFlowOff(NextcloudError):
    """Nextcloud's sign-in for programs (Login Flow v2) cannot be reached."""


class Forbidden(NextcloudError):
    """403: the user may not do this."""


class RouteRefused(Forbidden):
    """401 of one route alone: a probe with the same credential was answered. The credential stays."""


class NotFound(NextcloudError):
    """404: no such thing, or it belongs to another user."""


class Conflict(NextcloudError):
    """409: the target's state does not allow this, such as a missing parent folder."""


class AlreadyExists(Conflict):
    """Something by that name exists already, and overwriting was not asked for."""


class EtagMismatch(NextcloudError):
    """412: it changed since it was read. `current_etag` is for this program alone: no message names it."""

    def __init__(self, message: str, *, current_etag: str | None = None) -> None:
        super().__init__(message)
        self.current_etag = current_etag


class Locked(NextcloudError):
    """423, or a 500 that carries a LockedException: another user or client is writing it now."""


class Throttled(NextcloudError):
    """429: too many failed logins came from our address, or a user did one thing too often."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class InvalidName(NextcloudError):
    """400: Nextcloud does not accept this name or request."""


class OutOfRange(NextcloudError):
    """416: the file ends before the first byte asked for."""


class ServerFault(NextcloudError):
    """5xx or an unreadable answer: the fault is on Nextcloud's side."""


class Unavailable(NextcloudError):
    """503: not now. The credential stays."""


class Maintenance(Unavailable):
    """The Nextcloud server is in maintenance mode."""


class AccountDisabled(Unavailable):
    """The user's Nextcloud account is disabled."""


class StorageOffline(Unavailable):
    """An external storage does not answer; everything else of the user's Nextcloud does."""


class StorageFull(NextcloudError):
    """507: no room left for this; `has_numbers` says that the message holds the server's numbers."""

    def __init__(self, message: str, *, has_numbers: bool = False) -> None:
        super().__init__(message)
        self.has_numbers = has_numbers


class TooLarge(NextcloudError):
    """An answer was larger than what we are willing to read."""


class WrongAccount(NextcloudError):
    """An answer named another user than the one we act for; it was thrown away."""


class AccountTaken(WrongAccount):
    """A Nextcloud account is connected to another principal, and does not give way."""

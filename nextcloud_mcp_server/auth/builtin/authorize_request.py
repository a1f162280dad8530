"""Reads and checks authorization requests (RFC 6749 §4.1.1, RFC 7636 §4.3, RFC 8707 §2).

Until the client's redirect URI is known, errors are shown to the user only. After that they are sent to the
client too, by a button: an automatic redirect would make this server an open redirector, since anyone may
register a client (RFC 9700 §4.11.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from nextcloud_mcp_server.auth.builtin import document_source, documents, redirects
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.tokens import is_challenge
from nextcloud_mcp_server.auth.consent.callback import Params
from nextcloud_mcp_server.auth.known_clients import imitated
from nextcloud_mcp_server.auth.scopes import expand
from nextcloud_mcp_server.errors import (
    AuthorizeRefused,
    ClientBarred,
    ClientUnknown,
    DocumentRefusal,
    DocumentsOff,
    NextcloudMcpError,
    OAuthRefusal,
)
from nextcloud_mcp_server.storage.oauth_records import Client, ClientRequest

#: Some clients keep their own state in it. The URL of the answer must fit a header of a reverse proxy.
_LONGEST_STATE = 2_048

_UNKNOWN = "This server does not know the app, or not any more."
_ELSEWHERE = "The app wants the answer sent to an address that it has not named before."
_ODD = "The app's request cannot be read."
_NO_DOCUMENTS = (
    "The app is described in a document, and this server reads none (CLIENT_METADATA_DOCUMENTS=false): it has to "
    "register itself."
)
_BARRED = "The administrator of this server does not let people connect this app."


@dataclass(frozen=True, slots=True)
class Asked:
    """An authorization request that may be shown to the user.

    `document_host` is the host of the client's document, None for a client that registered itself. `leads_to`
    names the place of the redirect URI; `loopback` is this computer, `private` a program on it that owns a
    scheme. `imitates` names the known client that its name imitates.
    """

    client: Client
    request: ClientRequest
    document_host: str | None
    leads_to: str
    loopback: bool
    private: bool
    imitates: str | None = None


class ReturnToClient(NextcloudMcpError):
    """The request of a known client is refused; `url` takes the error to it."""

    def __init__(self, message: str, *, url: str, asked: Asked) -> None:
        super().__init__(message)
        self.url = url
        self.asked = asked


def asked_of(client: Client, request: ClientRequest) -> Asked:
    """Build what the user must know about a request."""
    uri = request.redirect_uri
    loopback = redirects.is_loopback(uri)
    document_host = document_source.host_of(client.client_id) if client.kind == "document" else None
    place = document_host or (None if loopback else redirects.shown(uri))
    return Asked(
        client=client,
        request=request,
        document_host=document_host,
        leads_to=redirects.shown(uri),
        loopback=loopback,
        private=redirects.is_native(uri) and not loopback,
        imitates=imitated(client.name, place),
    )


def back_to(request: ClientRequest, issuer: str, fields: Mapping[str, str]) -> str:
    """Build the URL that takes an answer to the client, with `state` and `iss` (RFC 9207 §2)."""
    answer = dict(fields)
    if request.state is not None:
        answer["state"] = request.state
    answer["iss"] = issuer
    return f"{request.redirect_uri}{'&' if '?' in request.redirect_uri else '?'}{urlencode(answer)}"


class Requests:
    """Reads and checks authorization requests; `bound` are the scopes that may be allowed at all.

    `at_sign_in` are the scopes that every client is asked to request first. Without `documents`, clients that
    are described in a document are refused: they must register themselves.
    """

    def __init__(
        self,
        clients: Clients,
        documents: ClientDocuments | None,
        *,
        issuer: str,
        resource: str,
        bound: frozenset[str],
        at_sign_in: frozenset[str] = frozenset(),
    ) -> None:
        self._clients = clients
        self._documents = documents
        self._issuer = issuer
        self._resource = resource
        self._bound = bound
        self._at_sign_in = at_sign_in

    async def read(self, params: Params, *, sender: str = "") -> Asked:
        """Check an authorization request; `sender` is the address of the browser.

        Raises:
            AuthorizeRefused: The client or its redirect URI is not known; nothing is sent to the client.
            ReturnToClient: The client is known, and its request is refused.
            TooManyRequests: Too many new client documents are requested.
        """
        client = await self._client(_one(params, "client_id"), sender)
        redirect_uri = _redirect_uri(client, _one(params, "redirect_uri"))
        request = ClientRequest(
            client_id=client.client_id,
            redirect_uri=redirect_uri,
            state=_state(params),
            code_challenge="".join(params.get("code_challenge", ())[:1]),
            resource=self._resource,
            scopes=self._scopes(client, params),
            client_name=client.name,
        )
        self._check(params, client, request)
        return asked_of(client, request)

    async def again(self, request: ClientRequest) -> Asked:
        """Check again whether a request may be shown to the user.

        The client keeps the name that was shown first: its document may give another one meanwhile.

        Raises:
            AuthorizeRefused: Its client was deleted, or has another redirect URI now.
        """
        client = await self._clients.find(request.client_id)
        if client is None:
            raise ClientUnknown(_UNKNOWN)
        self._admit(client)
        _redirect_uri(client, request.redirect_uri)
        return asked_of(replace(client, name=request.client_name or client.name), request)

    async def _client(self, client_id: str | None, sender: str) -> Client:
        if not client_id:
            raise AuthorizeRefused(_ODD)
        if documents.is_address(client_id):
            client = await self._described(client_id, sender)
        else:
            found = await self._clients.find(client_id)
            if found is None:
                raise ClientUnknown(_UNKNOWN)
            client = found
        self._admit(client)
        return client

    async def _described(self, client_id: str, sender: str) -> Client:
        if self._documents is None:
            raise DocumentsOff(_NO_DOCUMENTS)
        try:
            return await self._documents.get(client_id, sender=sender)
        except DocumentRefusal as refusal:
            raise refusal.reason(refusal.description) from None
        except OAuthRefusal as refusal:
            raise AuthorizeRefused(refusal.description) from None

    def _admit(self, client: Client) -> None:
        if not self._clients.allows(client):
            raise ClientBarred(_BARRED)

    def _scopes(self, client: Client, params: Params) -> frozenset[str]:
        """Return the scopes that the user may allow: the requested ones, or all possible ones (RFC 6749 §3.3).

        A client that repeats the scopes it was asked to request first has selected nothing. Its user may allow
        more at once, since some clients would never request more.
        """
        possible = self._bound if client.scopes is None else self._bound & client.scopes
        asked = expand(" ".join(params.get("scope", ())).split()) & self._bound
        if asked == self._at_sign_in:
            return possible
        return asked & possible or possible

    def _check(self, params: Params, client: Client, request: ClientRequest) -> None:
        def refuse(error: str, sentence: str) -> None:
            url = back_to(request, self._issuer, {"error": error, "error_description": sentence})
            raise ReturnToClient(sentence, url=url, asked=asked_of(client, request))

        if any(len(values) > 1 for name, values in params.items() if name != "resource"):
            # RFC 6749 §3.1; RFC 8707 §2 allows several resources; all must be this server's.
            refuse("invalid_request", "The request has a parameter twice.")
        if _first(params, "response_type") != "code":
            refuse("unsupported_response_type", "Only response_type=code is supported here.")
        if _first(params, "response_mode") not in (None, "query"):
            refuse("invalid_request", "Only response_mode=query is supported here.")
        if {"request", "request_uri"} & set(params):
            refuse("request_not_supported", "Request objects (request, request_uri) are not supported here.")
        if _first(params, "code_challenge_method") != "S256" or not is_challenge(request.code_challenge):
            refuse("invalid_request", "A code_challenge with code_challenge_method=S256 is needed (PKCE).")
        ours = self._resource.removesuffix("/")
        if any(resource.removesuffix("/") != ours for resource in params.get("resource", ())):
            refuse("invalid_target", f"This server gives tokens for {self._resource} alone.")
        if "none" in (_first(params, "prompt") or "").split():
            refuse("interaction_required", "The user must be asked: prompt=none is not supported here.")


def _one(params: Params, name: str) -> str | None:
    values = params.get(name, ())
    if len(values) > 1:
        raise AuthorizeRefused(_ODD)
    return values[0] if values else None


def _first(params: Params, name: str) -> str | None:
    return next(iter(params.get(name, ())), None)


def _redirect_uri(client: Client, given: str | None) -> str:
    if given is None:
        # RFC 6749 §3.1.2.3: it may be absent if only one is registered.
        if len(client.redirect_uris) != 1:
            raise AuthorizeRefused(_ODD)
        return client.redirect_uris[0]
    if not redirects.any_matches(client.redirect_uris, given):
        raise AuthorizeRefused(_ELSEWHERE)
    return given


def _state(params: Params) -> str | None:
    state = _one(params, "state")
    if state is not None and len(state) > _LONGEST_STATE:
        raise AuthorizeRefused(_ODD)
    return state

"""HTTP requests of one user to Nextcloud: no cookies, no other hosts, limits on time and size."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from time import monotonic
from typing import Any
from urllib.parse import unquote
from urllib.request import Request

import anyio
import httpx2
from pydantic import BaseModel, ConfigDict

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import (
    body,
    credential_probe,
    error_mapping,
    memory_permit,
    redirect,
    retry,
)
from nextcloud_mcp_server.nextcloud.concurrency_limiter import UserLimiter
from nextcloud_mcp_server.nextcloud.connection_errors import translated
from nextcloud_mcp_server.nextcloud.credential import NextcloudCredential, auth_of
from nextcloud_mcp_server.nextcloud.retry import READING, Kind, PassingError
from nextcloud_mcp_server.nextcloud.trust import Trust
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.telemetry import metrics, spans

#: A list of 50,000 notes takes less. Parsed, letters may take four bytes each, and one call holds all of it.
_MAX_BYTES = 12_582_912
_MADE = "Nextcloud made this change, but its answer is too long to be read. Do not repeat it; look at what is there."
_MAX_ERROR_BYTES = 262_144
_CONNECT_SECONDS = 10.0
_REQUEST_SECONDS = 60.0
_STREAM_SECONDS = 600.0
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ASKING = {"Accept-Encoding": "gzip", "Accept": "application/json, */*;q=0.5"}


class Answer(BaseModel):
    """Base of the models of responses; each is built on first use, not at start."""

    model_config = ConfigDict(defer_build=True)


class _NoCookies(DefaultCookiePolicy):
    """Accepts and returns no cookies.

    In Nextcloud a session cookie takes precedence over the Authorization header: a cookie from Alice's response, sent
    with Bob's password, would run Bob's request as Alice.
    """

    def set_ok(self, cookie: Cookie, request: Request) -> bool:  # noqa: ARG002  # the signature is cookielib's
        return False

    def return_ok(self, cookie: Cookie, request: Request) -> bool:  # noqa: ARG002  # the signature is cookielib's
        return False


def open_pool(
    *, ca_bundle: str | None, user_agent: str, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    """Open the connection pool that all users' requests share; it holds no cookies and no credential.

    Raises:
      ConfigurationError: The certificates of `NEXTCLOUD_CA_BUNDLE` cannot be read.
    """
    return httpx2.AsyncClient(
        transport=transport,
        verify=True if transport else Trust(ca_bundle),
        headers={"User-Agent": user_agent, "OCS-APIRequest": "true", "Accept-Language": "en"},
        cookies=CookieJar(policy=_NoCookies()),
        timeout=httpx2.Timeout(30.0, connect=_CONNECT_SECONDS),
        limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30.0),
        follow_redirects=False,
    )


class _LargeResponse(Exception):  # it is no error: the request is sent again
    """Breaks off a request that needs the permit first, for a large response."""


class NextcloudHttp:
    """Sends one user's requests; `uid` is "" while it is unknown, and without a signed-in user.

    `public_url` is the address that browsers use, where it differs from `base`: Nextcloud rejects requests with an
    unknown Host. Every request occupies one of the `limiter`. `changes` counts the requests that were not reads.
    """

    def __init__(
        self,
        pool: httpx2.AsyncClient,
        base: NextcloudUrl,
        *,
        credential: NextcloudCredential | None = None,
        uid: str = "",
        public_url: NextcloudUrl | None = None,
        limiter: UserLimiter | None = None,
    ) -> None:
        self.uid = uid
        self.base = base
        #: The address at which browsers reach Nextcloud.
        self.web = public_url or base
        self._pool = pool
        self._auth = auth_of(credential)
        self._limiter = limiter or credential_probe.Slot()
        self.changes = 0
        self._host = {} if public_url is None else {"Host": public_url.netloc}

    @property
    def just_accepted(self) -> bool:
        """Tell whether Nextcloud has just accepted the credential: many requests may be sent."""
        return self._limiter.just_accepted

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        json: object = None,
        content: bytes | str | None = None,
        timeout_seconds: float | None = None,
        patient: bool = False,
        repeat: Kind | None = None,
        max_bytes: int = _MAX_BYTES,
        sentences: Mapping[int, str] | None = None,
        answers: frozenset[int] = frozenset(),
    ) -> httpx2.Response:
        """Send one request and read the whole response; repeat it when that may help and is safe.

        `path` is percent-encoded and starts with "/". `sentences` replaces error messages by status, and responses
        with the statuses in `answers` are returned instead of raised. `patient` lets Nextcloud take the whole time
        limit until the response begins. `repeat` overrides the rule of repetition, which by default follows from the
        method and headers (see `retry`). A large response needs the user's permit (see `memory_permit`).

        Raises:
          NextcloudError: A status ≥ 400, a response for another user, or a connection error.
        """

        async def send() -> httpx2.Response:
            opened = self._open(
                method,
                path,
                timeout_seconds=timeout_seconds or _REQUEST_SECONDS,
                sentences=sentences or {},
                answers=answers,
                params=params,
                headers={**_ASKING, **(headers or {})},
                json=json,
                content=content,
                **({"timeout": httpx2.Timeout(timeout_seconds, connect=_CONNECT_SECONDS)} if patient else {}),
            )
            async with opened as (response, slot):
                return await _answer(response, max_bytes, self.uid, partial(self._permitted, method, slot))

        repeater = retry.Retrier(repeat or retry.kind_of(method, path, headers or {}))
        try:
            return await self._sent(repeater, send)
        except (errors.EtagMismatch, errors.Conflict, errors.NotFound) as refused:
            if not repeater.in_doubt:
                raise
            return await self._was_applied(refused, method, path, json=json, content=content)

    async def _sent(
        self, repeater: retry.Retrier, send: Callable[[], Awaitable[httpx2.Response]]
    ) -> httpx2.Response:
        try:
            return await repeater.run(send)
        except _LargeResponse:
            pass
        # Outside of the handler: the error keeps the frames that hold what has been read, which may be megabytes.
        await memory_permit.take(self.uid)
        return await repeater.run(send)

    async def _permitted(self, method: str, slot: credential_probe.Slot) -> None:
        """Make sure that the call has the permit for a large response.

        Waiting in one of the user's slots could last forever: the call with the permit may need a slot. So a read is
        broken off and sent again, and the response to a change, which cannot be, gives its slot back.
        """
        if memory_permit.take_now(self.uid):
            return
        if method in READING:
            raise _LargeResponse
        slot.leave()
        await memory_permit.take_for_change(self.uid)

    async def _was_applied(
        self,
        refused: errors.NextcloudError,
        method: str,
        path: str,
        *,
        json: object,
        content: bytes | str | None,
    ) -> httpx2.Response:
        """Find out whether a change that was refused on repetition was made by the previous attempt.

        Raises:
          TimedOut: It may have been made; that cannot be determined.
          NextcloudError: It was not made.
        """
        landed = method == "DELETE" and isinstance(refused, errors.NotFound)
        found = httpx2.Response(httpx2.codes.NO_CONTENT)
        if method == "MKCOL":
            # The caller checks what exists.
            raise refused
        if method == "PUT":
            found = await self.request("GET", path)
            landed = retry.holds(found, json=json, content=content)
        if landed:
            self.changes += 1
            return found
        raise errors.TimedOut(
            "The first try of this change got no answer, and the second found things changed: perhaps by the first. "
            f"{error_mapping.IN_DOUBT}"
        ) from refused

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout_seconds: float = _STREAM_SECONDS,
        sentences: Mapping[int, str] | None = None,
    ) -> AsyncGenerator[httpx2.Response]:
        """Open a response without reading it, uncompressed; opening is repeated as in `request`.

        Raises:
          NextcloudError: As `request`.
        """
        opened = partial(
            self._open,
            method,
            path,
            timeout_seconds=timeout_seconds,
            sentences=sentences or {},
            headers={"Accept-Encoding": "identity", **(headers or {})},
            content=content,
        )
        repeater = retry.Retrier(Kind.READING if method in READING else Kind.ONCE)
        try:
            async with AsyncExitStack() as stack:
                response, _ = await repeater.run(lambda: stack.enter_async_context(opened()))
                if coding := body.coding_of(response):
                    # Part of a compressed body has other offsets and an unknown size.
                    raise body.unasked(coding)
                yield response
        except PassingError as passing:
            raise passing.error from None

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        timeout_seconds: float,
        sentences: Mapping[int, str],
        headers: Mapping[str, str],
        answers: frozenset[int] = frozenset(),
        **options: Any,  # noqa: ANN401  # what httpx2 takes: params, json, content
    ) -> AsyncGenerator[tuple[httpx2.Response, credential_probe.Slot]]:
        url = f"{self.base}{_checked(path)}"
        headers = {**headers, **self._host}
        try:
            # A limit on the whole exchange: a server that sends one byte a second never reaches the other limits.
            with anyio.fail_after(timeout_seconds):
                async with self._limiter.next() as slot:
                    if method not in READING and not memory_permit.may_change(self.uid):
                        raise _LargeResponse
                    response = await self._send(method, url, headers=headers, **options)
                    try:
                        self._check_person(response)
                        status = response.status_code
                        if status >= httpx2.codes.BAD_REQUEST and status not in answers:
                            await self._refuse(slot, path, response, sentences)
                        slot.accepted()
                        self.changes += method not in READING
                        yield response, slot
                    finally:
                        await response.aclose()
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise translated(error) from None

    async def _refuse(
        self, slot: credential_probe.Slot, path: str, response: httpx2.Response, sentences: Mapping[int, str]
    ) -> None:
        read = await body.read(response, _MAX_ERROR_BYTES, cut=True)
        error = error_mapping.from_response(read, sentences)
        if isinstance(error, errors.CredentialRejected) and self._auth is not None:
            raise await slot.settled(lambda: self._answered(*credential_probe.probe_of(path)), error)
        if not error_mapping.is_of_gateway(read):
            slot.accepted()
        if (shown := error_mapping.storage_of(read)) is not None:
            raise await self._of_storage(shown, read, error)
        passing = error_mapping.passing(read, error)
        raise error if passing is None else PassingError(error, passing)

    async def doubted(self, path: str, error: errors.CredentialRejected) -> errors.NextcloudError:
        """Return the error for a response that is not for the signed-in user, after a probe."""
        async with self._limiter.next() as slot:
            return await slot.settled(lambda: self._answered(*credential_probe.probe_of(path)), error)

    async def _answered(self, method: str, path: str) -> httpx2.Response:
        """Send the probe of a credential once; read its response only if it is an error."""
        response = await self._send(method, f"{self.base}{path}", headers={"Depth": "0", **self._host})
        try:
            self._check_person(response)
            return await body.read(response, _MAX_ERROR_BYTES, cut=True) if response.is_error else response
        finally:
            await response.aclose()

    async def _of_storage(
        self, shown: str, read: httpx2.Response, error: errors.NextcloudError
    ) -> errors.NextcloudError:
        """Distinguish an offline external storage from maintenance, by `status.php`, which is public."""
        request = self._pool.build_request(
            "GET", f"{self.base}/status.php", headers={**_ASKING, **self._host}
        )
        try:
            response = await self._pool.send(request, stream=True)
            try:
                status = await body.read(response, _MAX_ERROR_BYTES, cut=True)
            finally:
                await response.aclose()
        except (httpx2.HTTPError, errors.NextcloudError):
            return error
        return error_mapping.of_storage(shown, read, status) or error

    async def _send(self, method: str, url: str, **options: Any) -> httpx2.Response:  # noqa: ANN401  # passed on
        """Open a response, after one redirect at most."""
        hops = 0
        while True:
            request = self._pool.build_request(method, url, **options)
            response = await self._counted(request)
            if response.status_code not in _REDIRECTS:
                return response
            await response.aclose()
            url = redirect.followed(response, last=bool(hops))
            hops += 1

    async def _counted(self, request: httpx2.Request) -> httpx2.Response:
        began, status = monotonic(), "none"
        try:
            with spans.nextcloud_request(request.method) as span:
                response = await self._pool.send(request, stream=True, auth=self._auth)
                span.set_attribute(spans.STATUS, response.status_code)
            status = str(response.status_code)
        finally:
            metrics.RESPONSES.add(request.method, status)
            metrics.RESPONSE_SECONDS.add(request.method, value=monotonic() - began)
        return response

    def _check_person(self, response: httpx2.Response) -> None:
        """Raise WrongAccount for a response that names another user; the unread connection is closed."""
        named = response.headers.get("X-User-Id")
        if named is not None and self.uid and named != self.uid:
            raise errors.WrongAccount(
                "Nextcloud answered for another account than the connected one; the answer was thrown away. "
                "Do not retry: the administrator should look for a cache or proxy that mixes up people."
            )


def _checked(path: str) -> str:
    segments = unquote(path.partition("?")[0]).split("/")
    if (
        not path.startswith("/")
        or {".", ".."} & set(segments)
        or any(ord(char) < ord(" ") for char in unquote(path))
    ):
        raise errors.InvalidInput(
            "That path is not allowed: it must not hold “.”, “..” or control characters."
        )
    return path


async def _answer(
    response: httpx2.Response, max_bytes: int, uid: str, permitted: Callable[[], Awaitable[None]]
) -> httpx2.Response:
    is_change = response.request.method not in READING
    try:
        with memory_permit.ResponseBytes(uid, permitted, is_change=is_change) as counted:
            read = await body.read(response, max_bytes, counted=counted)
    except errors.TooLarge as error:
        raise (errors.TooLarge(_MADE) if is_change else error) from None
    if is_change:
        error_mapping.refuse_page(read)
    return read

import gzip
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import stamina
from pydantic import SecretStr, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.decoding import decoded
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

Answer = Callable[[httpx2.Request], httpx2.Response]
SECRET = "app-password-canary"


@pytest.fixture(autouse=True)
def no_waiting() -> Generator[None]:
    with stamina.set_testing(True, attempts=10, cap=True):
        yield


def http(
    answer: Answer, *, base: str = "https://h", uid: str = "alice", signed_in: bool = True
) -> NextcloudHttp:
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    credential = BasicCredential("alice@example.org", SecretStr(SECRET)) if signed_in else None
    return NextcloudHttp(pool, NextcloudUrl.parse(base), credential=credential, uid=uid)


def always(status: int, **answer: Any) -> Answer:  # noqa: ANN401  # what httpx2.Response takes
    return lambda _: httpx2.Response(status, **answer)


def dav_error(exception: str, message: str = "", more: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<d:error xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns">\n'
        f"  <s:exception>{exception}</s:exception>\n  <s:message>{message}</s:message>\n{more}</d:error>\n"
    )


class Trickle(httpx2.AsyncByteStream):
    """A body in parts; `waits` never sends the next one."""

    def __init__(self, *parts: bytes, waits: bool = False, fails: Exception | None = None) -> None:
        self.parts = parts
        self.waits = waits
        self.fails = fails
        self.read = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            self.read += 1
            yield part
        if self.waits:
            await anyio.sleep_forever()
        if self.fails:
            raise self.fails

    async def aclose(self) -> None:
        self.closed = True


async def test_every_request_carries_basic_auth_and_the_header_that_lets_apps_answer() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json=[])

    await http(answer).request(
        "POST", "/index.php/x", json={"a": "ü"}, params={"b": "c d"}, headers={"If-Match": '"e"'}
    )

    [request] = asked
    assert request.headers["OCS-APIRequest"] == "true"
    assert request.headers["If-Match"] == '"e"'
    assert request.headers["User-Agent"] == "tests"
    assert (
        request.headers["Authorization"]
        == f"Basic {b64encode(f'alice@example.org:{SECRET}'.encode()).decode()}"
    )
    assert str(request.url) == "https://h/index.php/x?b=c+d"
    assert request.content == '{"a":"ü"}'.encode()


async def test_a_path_is_sent_as_it_was_encoded() -> None:
    """B11: nothing is decoded or encoded a second time."""
    asked: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.raw_path)
        return httpx2.Response(200)

    await http(answer, base="https://h/nextcloud").request(
        "GET", "/remote.php/dav/files/a%20b%2Bc/a%2562c.txt"
    )

    assert asked == [b"/nextcloud/remote.php/dav/files/a%20b%2Bc/a%2562c.txt"]


@pytest.mark.parametrize(
    "path", ["x", "", "//../x", "/a/%2e%2e/b", "/a/..%2Fb", "/a%0Ab", "/a/./b", "https://evil/x"]
)
async def test_a_path_that_climbs_or_breaks_lines_never_leaves(path: str) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        raise NotImplementedError

    with pytest.raises(errors.InvalidInput):
        await http(answer).request("GET", path)


async def test_a_cookie_that_nextcloud_sets_never_comes_back() -> None:
    """A session cookie wins over Authorization at Nextcloud: Bob's request would run as Alice."""
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        cookies = (
            "nc_session_id=s; path=/; HttpOnly",
            "nc_token=t; path=/; expires=Fri, 31-Dec-2099 23:59:59 GMT",
        )
        return httpx2.Response(200, headers=[("Set-Cookie", cookie) for cookie in cookies])

    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    base = NextcloudUrl.parse("https://h")
    for name in ("alice", "bob", "alice"):
        person = NextcloudHttp(pool, base, credential=BasicCredential(name, SecretStr("p")), uid=name)
        await person.request("GET", "/ocs/v2.php/cloud/user")
        async with person.stream("GET", "/remote.php/dav/files/x"):
            pass

    assert len(asked) == 6
    assert not any("Cookie" in request.headers for request in asked)
    assert len(pool.cookies) == 0


def test_a_cookie_that_got_into_the_pool_by_hand_is_not_sent() -> None:
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(always(200)))
    pool.cookies.set("nc_session_id", "s", domain="h")

    request = httpx2.Request("GET", "https://h/")
    pool.cookies.set_cookie_header(request)

    assert "Cookie" not in request.headers


async def test_an_answer_for_another_person_is_discarded_unread() -> None:
    body = Trickle(b"Bob's notes")

    with pytest.raises(errors.WrongAccount) as caught:
        await http(always(200, headers={"X-User-Id": "bob"}, stream=body)).request("GET", "/x")

    assert (body.read, body.closed) == (0, True)
    assert "bob" not in str(caught.value).casefold()


async def test_another_person_is_noticed_in_an_error_too_and_in_a_stream() -> None:
    with pytest.raises(errors.WrongAccount):
        await http(always(404, headers={"X-User-Id": "bob"})).request("GET", "/x")

    with pytest.raises(errors.WrongAccount):
        async with http(always(200, headers={"X-User-Id": "bob"})).stream("GET", "/x"):
            raise NotImplementedError


@pytest.mark.parametrize(("named", "uid"), [("ünal", "ünal"), ("a b@c", "a b@c"), ("whoever", "")])
async def test_the_right_person_is_recognised_and_an_unknown_one_not_compared(named: str, uid: str) -> None:
    """B11."""
    answer = always(200, headers=[(b"X-User-Id", named.encode())], json=[])

    response = await http(answer, uid=uid).request("GET", "/x")

    assert response.json() == []


@pytest.mark.parametrize(
    ("location", "follows"),
    [
        ("https://h/status.php", True),
        ("https://h/status.php/", True),
        ("https://evil.example/status.php", False),
        ("https://h:8443/status.php", False),
        ("http://h/index.php/login", False),
        ("//evil.example/status.php", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
async def test_only_https_at_the_same_host_and_a_slash_are_followed(location: str, *, follows: bool) -> None:
    """B34: four kinds of redirects."""
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return (
            httpx2.Response(301, headers={"Location": location}) if len(asked) == 1 else httpx2.Response(200)
        )

    client = http(answer, base="http://h")

    if follows:
        await client.request("GET", "/status.php")
        assert asked == ["http://h/status.php", location]
    else:
        with pytest.raises(errors.NotNextcloud, match="NEXTCLOUD_HOST"):
            await client.request("GET", "/status.php")
        assert asked == ["http://h/status.php"]


async def test_a_redirect_to_another_host_names_that_host_and_sends_nothing_there() -> None:
    """B34."""
    answer = always(302, headers={"Location": "https://www.example.org/x?token=canary"})

    with pytest.raises(errors.NotNextcloud, match=r"https on www\.example\.org") as caught:
        await http(answer).request("GET", "/x")

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(("method", "location"), [("PUT", "https://h/x"), ("GET", "https://h/x/")])
async def test_a_write_is_never_redirected_and_nothing_goes_in_circles(method: str, location: str) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(308, headers={"Location": location})

    with pytest.raises(errors.NotNextcloud):
        await http(answer).request(method, "/x")

    assert len(asked) <= 2


async def test_a_body_beyond_the_cap_is_refused_before_it_is_read_to_its_end() -> None:
    body = Trickle(*[b"x" * 1000] * 100)

    with pytest.raises(errors.TooLarge):
        await http(always(200, stream=body)).request("GET", "/x", max_bytes=2500)

    assert (body.read, body.closed) == (3, True)


async def test_the_cap_counts_what_a_compressed_body_unpacks_to() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)

    with pytest.raises(errors.TooLarge):
        await http(always(200, headers={"Content-Encoding": "gzip"}, stream=Trickle(bomb))).request(
            "GET", "/x"
        )


async def test_a_compressed_answer_is_unpacked() -> None:
    """U52: a compressed answer is no damaged one."""
    packed = gzip.compress(b'{"a":1}')
    answer = always(
        200, headers={"Content-Encoding": "gzip", "ETag": '"x-gzip"'}, stream=Trickle(packed[:9], packed[9:])
    )

    response = await http(answer).request("GET", "/x")

    assert response.json() == {"a": 1}
    assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", b"not gzip at all"), ("gzip", gzip.compress(b"x" * 9999, mtime=0)[:-9]), ("br", b"x")],
)
async def test_a_damaged_or_unasked_encoding_is_a_fault(encoding: str, body: bytes) -> None:
    answer = always(200, headers={"Content-Encoding": encoding}, stream=Trickle(body))

    with pytest.raises(errors.ServerFault):
        await http(answer).request("GET", "/x")


async def test_a_long_error_page_is_read_only_in_part() -> None:
    body = Trickle(*[b"x" * 100_000] * 10)

    with pytest.raises(errors.ServerFault):
        await http(always(500, stream=body)).request("GET", "/x")

    assert body.read == 3


async def test_a_body_that_never_ends_runs_into_the_time_limit() -> None:
    body = Trickle(b"x", waits=True)

    with anyio.fail_after(60), pytest.raises(errors.TimedOut, match="read again"):
        await http(always(200, stream=body)).request("GET", "/x", timeout_seconds=0.05)

    assert body.closed


async def test_a_stream_hands_out_the_body_as_it_comes() -> None:
    """U53: nothing reads a large file whole on its way."""
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(206, stream=Trickle(b"a", b"b"))

    async with http(answer).stream("GET", "/x", headers={"Range": "bytes=0-1"}) as response:
        parts = [part async for part in response.aiter_bytes()]

    assert parts == [b"a", b"b"]
    assert (asked[0].headers["Accept-Encoding"], asked[0].headers["Range"]) == ("identity", "bytes=0-1")


async def test_a_stream_that_came_compressed_all_the_same_is_refused() -> None:
    with pytest.raises(errors.ServerFault, match="compressed"):
        async with http(always(200, headers={"Content-Encoding": "gzip"})).stream("GET", "/x"):
            raise NotImplementedError


@pytest.mark.parametrize(
    "trouble",
    [423, 502, 503, 504, httpx2.ConnectError("refused"), httpx2.RemoteProtocolError("hung up")],
)
@pytest.mark.parametrize("method", ["GET", "PROPFIND", "REPORT", "SEARCH"])
async def test_reading_in_a_stream_is_repeated_until_it_is_open(
    method: str, trouble: Exception | int
) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if len(asked) > 1:
            return httpx2.Response(207, stream=Trickle(b"a", b"b"))
        if isinstance(trouble, Exception):
            raise trouble
        return httpx2.Response(trouble, headers={"Retry-After": "0"})

    async with http(answer).stream(method, "/remote.php/dav/x") as response:
        body = await response.aread()

    assert (body, len(asked)) == (b"ab", 2)


@pytest.mark.parametrize(("method", "tries"), [("GET", 3), ("POST", 1)])
async def test_a_stream_fails_like_a_request(method: str, tries: int) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(502)

    with pytest.raises(errors.Unavailable):
        async with http(answer).stream(method, "/x"):
            raise NotImplementedError

    assert len(asked) == tries


async def test_a_connection_lost_in_a_stream_is_unreachable() -> None:
    body = Trickle(b"a", fails=httpx2.ReadError("gone"))

    with pytest.raises(errors.Unreachable):
        async with http(always(200, stream=body)).stream("GET", "/x") as response:
            await response.aread()


@pytest.mark.parametrize(
    "trouble", [httpx2.ConnectError("refused"), httpx2.RemoteProtocolError("hung up"), 502, 503, 504]
)
async def test_a_read_is_repeated_after_a_passing_trouble(trouble: Exception | int) -> None:
    """B28: nothing but the retry happened, and no consent was lost."""
    left: list[Exception | int] = [trouble, trouble]

    def answer(_: httpx2.Request) -> httpx2.Response:
        if left:
            failure = left.pop()
            if isinstance(failure, int):
                return httpx2.Response(failure)
            raise failure
        return httpx2.Response(200, json=[])

    response = await http(answer).request("PROPFIND", "/x")

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("method", "trouble", "kind"),
    [
        ("GET", httpx2.ConnectError("refused"), errors.Unreachable),
        ("GET", 502, errors.Unavailable),
    ],
)
async def test_repeating_ends_after_three_tries(
    method: str, trouble: Exception | int, kind: type[errors.NextcloudError]
) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if isinstance(trouble, int):
            return httpx2.Response(trouble)
        raise trouble

    with pytest.raises(kind) as caught:
        await http(answer).request(method, "/x")

    assert len(asked) == 3
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("PUT", httpx2.Response(502)),
        ("POST", httpx2.ConnectError("refused")),
        ("GET", httpx2.Response(429, headers={"Retry-After": "1"})),
        ("GET", httpx2.Response(500)),
        ("GET", httpx2.Response(503, headers={"Retry-After": "120"})),
        ("GET", httpx2.Response(503, headers={"X-Nextcloud-Maintenance-Mode": "1"})),
        (
            "GET",
            httpx2.Response(503, text=dav_error("x", "OC\\User\\DisabledUserException: Account disabled")),
        ),
        ("GET", httpx2.ReadTimeout("slow")),
        ("GET", httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")),
    ],
)
async def test_a_write_and_a_clear_refusal_are_never_repeated(
    method: str, answer: httpx2.Response | Exception
) -> None:
    asked: list[httpx2.Request] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(errors.NextcloudError):
        await http(serve).request(method, "/x")

    assert len(asked) == 1


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx2.ReadTimeout("x"), errors.TimedOut),
        (httpx2.ConnectTimeout("x"), errors.TimedOut),
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"), errors.TlsFailed),
        (httpx2.ConnectError("Name or service not known"), errors.Unreachable),
        (httpx2.ReadError("x"), errors.Unreachable),
        (httpx2.DecodingError("x"), errors.ServerFault),
    ],
)
async def test_trouble_on_the_way_is_a_sentence_without_what_the_library_said(
    failure: Exception, kind: type[errors.NextcloudError]
) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        raise failure

    with pytest.raises(kind) as caught:
        await http(answer).request("DELETE", "/x")

    assert type(caught.value) is kind
    assert str(failure) not in str(caught.value) or str(failure) == "x"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("cause", "kind", "advice"),
    [
        (ssl.SSLError("wrong version number"), errors.TlsFailed, "does not speak https://"),
        (socket.gaierror("not known"), errors.Unreachable, "Check the spelling of NEXTCLOUD_HOST"),
        (ConnectionRefusedError("refused"), errors.Unreachable, "Check its host and port"),
        (OSError("no route"), errors.Unreachable, "cannot be reached"),
    ],
)
async def test_why_there_is_no_connection_is_known_by_the_first_cause(
    cause: Exception, kind: type[errors.NextcloudError], advice: str
) -> None:
    between = OSError("All connection attempts failed")
    between.__context__ = cause

    def answer(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("failed") from between

    with pytest.raises(kind, match=advice):
        await http(answer).request("DELETE", "/x")


def test_a_private_ca_is_trusted_beside_the_system(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("nonsense")
    system = ssl.get_default_verify_paths().openssl_cafile

    open_pool(ca_bundle=None, user_agent="tests")
    open_pool(ca_bundle=system, user_agent="tests")
    for path in (str(broken), str(tmp_path / "missing.pem")):
        with pytest.raises(errors.ConfigurationError, match="NEXTCLOUD_CA_BUNDLE"):
            open_pool(ca_bundle=path, user_agent="tests")


async def test_no_user_is_signed_in_without_a_credential() -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={})

    await http(answer, signed_in=False, uid="").request("GET", "/status.php")

    assert "Authorization" not in asked[0].headers


async def test_no_error_holds_the_secret_the_header_or_an_address() -> None:
    """U43."""
    for status in (*range(400, 430), *range(500, 512)):
        with pytest.raises(errors.NextcloudError) as caught:
            await http(always(status, text=f"Basic {SECRET} https://h/x")).request("POST", "/x")
        assert not any(part in str(caught.value) for part in (SECRET, "Basic", "://"))
        assert str(caught.value).endswith(".")


def test_a_credential_and_a_client_do_not_show_the_secret() -> None:
    credential = BasicCredential("alice", SecretStr(SECRET))

    assert SECRET not in f"{credential!r}{credential}{http(always(200))!r}"


def test_an_unreadable_answer_is_a_fault_that_repeats_nothing() -> None:
    response = httpx2.Response(200, text="<html>canary</html>")

    with pytest.raises(errors.ServerFault) as caught:
        decoded(response, TypeAdapter(list[int]))

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidName),
        (401, errors.CredentialRejected),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.Forbidden),
        (409, errors.Conflict),
        (412, errors.EtagMismatch),
        (413, errors.TooLarge),
        (415, errors.InvalidName),
        (416, errors.OutOfRange),
        (422, errors.InvalidName),
        (418, errors.ServerFault),
        (423, errors.Locked),
        (429, errors.Throttled),
        (500, errors.ServerFault),
        (501, errors.ServerFault),
        (502, errors.Unavailable),
        (503, errors.Unavailable),
        (504, errors.Unavailable),
        (507, errors.StorageFull),
    ],
)
async def test_each_status_has_its_exception(status: int, kind: type[errors.NextcloudError]) -> None:
    with pytest.raises(errors.NextcloudError) as caught:
        await http(always(status)).request("PUT", "/x")

    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (httpx2.Response(500, text=dav_error("OCP\\Lock\\LockedException", '"/x" is locked')), errors.Locked),
        (httpx2.Response(500, json={"errorType": "OCP\\Lock\\LockedException"}), errors.Locked),
        (
            httpx2.Response(503, text=dav_error("OCA\\DAV\\Exception\\ServerMaintenanceMode")),
            errors.Maintenance,
        ),
        (
            httpx2.Response(503, headers={"X-Nextcloud-Maintenance-Mode": "1"}, html="<html></html>"),
            errors.Maintenance,
        ),
        (
            httpx2.Response(
                503,
                text=dav_error(
                    "Sabre\\DAV\\Exception\\ServiceUnavailable",
                    "OC\\User\\DisabledUserException: Account disabled",
                ),
            ),
            errors.AccountDisabled,
        ),
        (httpx2.Response(401, json={"message": "Account disabled"}), errors.AccountDisabled),
        (
            httpx2.Response(
                401, json={"ocs": {"meta": {"statuscode": 997, "message": "Unauthorised"}, "data": []}}
            ),
            errors.CredentialRejected,
        ),
        (httpx2.Response(400, json={"error": "Trusted domain error.", "code": 15}), errors.NotNextcloud),
        (httpx2.Response(412, json={"message": "CSRF check failed"}), errors.ServerFault),
        (
            httpx2.Response(412, text=dav_error("x", "exists", "<s:header>Overwrite</s:header>")),
            errors.AlreadyExists,
        ),
        (
            httpx2.Response(412, text=dav_error("x", "given", "<s:header>If-None-Match</s:header>")),
            errors.AlreadyExists,
        ),
        (
            httpx2.Response(
                412, text=dav_error("x", "An If-Match header was specified and the resource did not exist")
            ),
            errors.NotFound,
        ),
    ],
)
async def test_the_body_tells_apart_what_the_status_does_not(
    answer: httpx2.Response, kind: type[errors.NextcloudError]
) -> None:
    with pytest.raises(errors.NextcloudError) as caught:
        await http(lambda _: answer).request("PUT", "/x")

    assert type(caught.value) is kind


async def test_making_a_folder_that_exists_says_so() -> None:
    with pytest.raises(errors.AlreadyExists):
        await http(always(405)).request("MKCOL", "/x")


@pytest.mark.parametrize(
    ("answer", "etag"),
    [
        (httpx2.Response(412, headers={"ETag": '"f53c-gzip"'}), "f53c"),
        (httpx2.Response(412, headers={"ETag": '"x-gzip"', "OC-ETag": '"f53c"'}), "f53c"),
        (httpx2.Response(412, json={"id": 318, "content": "c", "etag": "f53c"}), "f53c"),
        (httpx2.Response(412, json=["no", "note"]), None),
        (httpx2.Response(412, text="<html>"), None),
    ],
)
async def test_a_conflict_carries_the_current_etag(answer: httpx2.Response, etag: str | None) -> None:
    with pytest.raises(errors.EtagMismatch, match="Read it again") as caught:
        await http(lambda _: answer).request("PUT", "/x")

    assert caught.value.current_etag == etag
    assert "f53c" not in str(caught.value)
    assert "Read it again" in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "120"}, 120),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Fri, 27 Nov 2026 21:07:48 GMT", "Date": "Fri, 27 Nov 2026 21:06:48 GMT"}, 60),
        ({"Retry-After": "Fri, 27 Nov 2026 21:07:48 GMT"}, None),
    ],
)
async def test_throttling_names_the_allow_list_and_carries_the_wait(
    headers: dict[str, str], seconds: float | None
) -> None:
    """B41."""
    with pytest.raises(errors.Throttled, match="allow-list") as caught:
        await http(always(429, headers=headers, json={"message": "Reached maximum delay"})).request(
            "GET", "/x"
        )

    assert caught.value.retry_after_seconds == seconds
    assert (f"{seconds:.0f} seconds" in str(caught.value)) if seconds else True


@pytest.mark.parametrize("content", [b"", b"[]", b" {}\n"])
async def test_a_user_that_acts_too_often_is_not_told_of_failed_logins(content: bytes) -> None:
    # As Nextcloud 32 answers the twenty-first share within ten minutes; as JSON, with an empty list.
    with pytest.raises(errors.Throttled, match="only so many times") as caught:
        await http(always(429, content=content)).request(
            "POST", "/ocs/v2.php/apps/files_sharing/api/v1/shares"
        )

    assert "logins" not in str(caught.value)


@pytest.mark.parametrize("after", ["120", "0"])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_says_when_is_quoted_and_never_with_no_time_at_all(
    status: int, after: str
) -> None:
    """RFC 9110 §10.2.3: 0 seconds is a wait, too."""
    wait = {"120": "120 seconds", "0": "1 second"}[after]

    with pytest.raises((errors.Unavailable, errors.Throttled), match=rf" {wait}\b"):
        await http(always(status, headers={"Retry-After": after}, text="x")).request("GET", "/x")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            httpx2.Response(
                400, text=dav_error("x", "&quot;\\&quot; is not allowed inside a file or folder name.")
            ),
            '"\\" is not allowed inside a file or folder name',
        ),
        (
            httpx2.Response(
                403, json={"ocs": {"meta": {"message": "Logged in account must be an admin"}, "data": []}}
            ),
            "Logged in account must be an admin",
        ),
        (httpx2.Response(403, json={"ocs": []}), None),
        (httpx2.Response(403, json={"message": ["x"]}), None),
        (httpx2.Response(400, text=dav_error("x", "see https://evil.example/login")), None),
        (httpx2.Response(400, text="[" * 100_000), None),
    ],
)
async def test_the_reason_that_nextcloud_gives_is_passed_on_unless_it_holds_an_address(
    answer: httpx2.Response, reason: str | None
) -> None:
    with pytest.raises(errors.NextcloudError) as caught:
        await http(lambda _: answer).request("PUT", "/x")

    assert ("it says" in str(caught.value)) is (reason is not None)
    assert (reason or "") in str(caught.value)


async def test_a_client_can_word_an_error_itself_braces_and_all() -> None:
    with pytest.raises(errors.NotFound, match=r"^No file \{a\}\.$"):
        await http(always(404)).request("GET", "/x", sentences={404: "No file {a}."})


async def test_an_app_that_is_not_there_is_named() -> None:
    with pytest.raises(errors.NotFound, match="“notes” is not installed"):
        await http(always(404, html="<html></html>")).request("GET", "/index.php/apps/notes/api/v1/notes")

    with pytest.raises(errors.NotFound, match="Nothing is there"):
        await http(always(404, html="<html></html>")).request("GET", "/ocs/v2.php/x")


async def test_an_address_that_is_too_long_is_said_to_be_too_long() -> None:
    with pytest.raises(errors.InvalidName, match="longer than any server takes"):
        await http(always(200)).request("GET", "/x", params={"q": "x" * 100_000})

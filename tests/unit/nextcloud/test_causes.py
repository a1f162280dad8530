"""What a refusal is put down to: what the server said, and no guess that contradicts it."""

import logging

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from tests.dav_fakes import account_over, call, entry, http_over, multistatus, network

OFFLINE = httpx2.Response(
    503,
    text='<d:error xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns"><s:exception>Sabre\\DAV\\Exception\\ServiceUnavailable'
    "</s:exception><s:message>Storage is temporarily not available</s:message></d:error>",
)


def status(*, maintenance: bool = False) -> httpx2.Response:
    body = {"installed": True, "maintenance": maintenance, "needsDbUpgrade": False, "versionstring": "32.0.1"}
    return httpx2.Response(200, json=body)


async def test_an_external_storage_that_is_offline_is_named_after_two_requests_and_the_rest_goes_on() -> None:
    """N15: told from maintenance by its body and status.php; the access stays as it is."""
    net = network(OFFLINE, status(), multistatus([entry("Docs/a.md")]))
    account = account_over(net)

    with pytest.raises(errors.StorageOffline, match="external storage 'NAS' is offline") as caught:
        await account.files.list_folder("NAS")
    asked = net.methods.copy()
    found = await account.files.info("Docs/a.md")

    assert asked == ["PROPFIND", "GET"]
    assert net.seen[1].url.path == "/status.php"
    assert "Authorization" not in net.seen[1].headers
    assert "maintenance" not in str(caught.value)
    assert found.name == "a.md"


async def test_with_a_storage_offline_the_top_folder_and_other_files_are_shown_as_ever() -> None:
    """N15: one request for each of the others, and no refusal of the access."""
    top = multistatus([entry("", folder=True), entry("Docs", folder=True), entry("NAS", folder=True)])
    file = httpx2.Response(
        200, content=b"# A\n", headers={"Content-Type": "text/markdown", "OC-ETag": '"e1"'}
    )
    net = network(top, OFFLINE, status(), file)
    account = account_over(net)

    listed = await call(account, "nc_files_list_folder")
    with pytest.raises(errors.StorageOffline, match="external storage 'NAS' is offline") as caught:
        await call(account, "nc_files_list_folder", path="NAS")
    read = await call(account, "nc_files_read_file", path="Docs/a.md")

    assert [row.name for row in listed.items] == ["Docs", "NAS"]
    assert not isinstance(caught.value, errors.CredentialRejected | errors.Maintenance)
    assert read.content == "# A\n"
    assert net.methods == ["PROPFIND", "PROPFIND", "GET", "GET"]


@pytest.mark.parametrize(
    ("path", "words"),
    [("NAS/in/x.txt", "storage that holds 'NAS/in/x.txt'"), ("/", "An external storage of this account")],
)
async def test_how_much_is_known_of_the_storage_is_said(path: str, words: str) -> None:
    """N15: a mount may lie deeper, and the top folder may be refused for one of them."""
    with pytest.raises(errors.StorageOffline, match=words):
        await account_over(network(OFFLINE, status())).files.info(path)


async def test_a_write_to_a_storage_that_is_offline_is_not_repeated() -> None:
    """N15."""
    net = network(OFFLINE, status())

    with pytest.raises(errors.StorageOffline):
        await account_over(net).files.write("NAS/a.txt", b"x")

    assert net.methods == ["PUT", "GET"]


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (status(maintenance=True), errors.Maintenance),
        (httpx2.Response(200, text="<html>"), errors.Unavailable),
        (httpx2.ConnectError("x"), errors.Unavailable),
    ],
)
async def test_what_status_php_says_wins(
    told: httpx2.Response | Exception, kind: type[errors.NextcloudError]
) -> None:
    with pytest.raises(errors.NextcloudError) as caught:
        await http_over(network(OFFLINE, told)).request("PUT", "/remote.php/dav/files/alice/NAS/x")

    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "base",
    [
        "https://cloud.test/apps/dashboard/",
        "https://cloud.test/login",
        "https://cloud.test/nc/apps/files/files",
    ],
)
@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(404, text="x"),
        httpx2.Response(302, headers={"Location": "/login"}),
        httpx2.Response(200, text="<html>"),
    ],
)
async def test_an_address_that_was_copied_from_a_page_is_corrected(
    base: str, answer: httpx2.Response
) -> None:
    pool = open_pool(ca_bundle=None, user_agent="t", transport=httpx2.MockTransport(network(answer)))
    right = "https://cloud.test/nc" if "/nc/" in base else "https://cloud.test"

    with pytest.raises(errors.NotNextcloud, match="is a page of Nextcloud") as caught:
        await Nextcloud(NextcloudUrl.parse(base), pool).server_info()

    assert str(caught.value).endswith(f"Set it to {right}")


@pytest.mark.parametrize("status_code", [400, 497])
async def test_http_where_https_is_spoken_is_said(status_code: int) -> None:
    page = "<h1>400 Bad Request</h1>The plain HTTP request was sent to HTTPS port"

    with pytest.raises(errors.NotNextcloud, match="https:// is spoken"):
        await http_over(network(httpx2.Response(status_code, text=page))).request("GET", "/x")


async def test_a_sign_in_page_at_another_host_is_told_to_the_operator_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    flow = {"poll": {"token": "t"}, "login": "https://internal.lan/index.php/login/v2/flow/secret"}
    net = network(*[httpx2.Response(200, json=flow)] * 2)
    pool = open_pool(ca_bundle=None, user_agent="t", transport=httpx2.MockTransport(net))
    nextcloud = Nextcloud(NextcloudUrl.parse("https://cloud.test"), pool)

    started, _ = [await nextcloud.login.start() for _ in range(2)]

    assert started.login_url.get_secret_value() == "https://cloud.test/index.php/login/v2/flow/secret"
    assert caplog.text.count("internal.lan") == 1
    assert "secret" not in caplog.text


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br"])
async def test_an_encoding_that_was_not_asked_for_is_named(coding: str) -> None:
    net = network(httpx2.Response(200, headers={"X": "y"}))
    answer = httpx2.Response(200, stream=httpx2.ByteStream(b"x"), headers={"Content-Encoding": coding})

    with pytest.raises(errors.ServerFault, match=coding):
        await http_over(lambda _: answer).request("GET", "/x")
    assert net.seen == []


async def test_the_old_name_of_gzip_is_read() -> None:
    import gzip  # noqa: PLC0415 - here alone

    body = httpx2.ByteStream(gzip.compress(b"[]"))
    answer = httpx2.Response(200, stream=body, headers={"Content-Encoding": "x-gzip"})

    assert (await http_over(lambda _: answer).request("GET", "/x")).content == b"[]"


async def test_a_quota_that_is_used_up_is_told_with_the_numbers_of_the_server() -> None:
    full = httpx2.Response(
        507, text="<s:message>Insufficient space in /x, 100 required, 9 available</s:message>"
    )
    net = network(full)

    with pytest.raises(errors.StorageFull, match="needs 100 bytes and the quota leaves 9"):
        await account_over(net).files.write("a.txt", b"x" * 100)

    assert net.methods == ["PUT"]

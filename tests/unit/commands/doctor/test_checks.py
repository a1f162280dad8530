import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx2
import pytest

from nextcloud_mcp_server.commands.doctor import checks
from nextcloud_mcp_server.commands.doctor.checks import (
    Finding,
    Verdict,
    look_at_database,
    look_here,
    look_there,
)
from nextcloud_mcp_server.commands.doctor.report import check, report
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.server import measuring
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.storage.crypto import load_or_create_key_file, new_key

pytestmark = pytest.mark.usefixtures("own_data_dir")

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
CLOUD = "https://cloud.example.org"

Handler = Callable[[httpx2.Request], httpx2.Response]


def cloud(
    *,
    version: str = "34.0.3",
    maintenance: bool = False,
    date: str | None = format_datetime(NOW, usegmt=True),
    login: int = 200,
    throttle: dict[str, object] | None = None,
) -> Handler:
    """Answer like the recorded Nextcloud."""
    status = {
        "installed": True,
        "maintenance": maintenance,
        "needsDbUpgrade": False,
        "version": f"{version}.2",
        "versionstring": version,
        "edition": "",
        "productname": "Nextcloud",
    }
    bruteforce = {"delay": 0, "allow-listed": False} if throttle is None else throttle

    def handler(request: httpx2.Request) -> httpx2.Response:
        assert "Authorization" not in request.headers
        headers = {"Date": date} if date is not None else {}
        match request.url.path:
            case "/status.php":
                return httpx2.Response(200, json=status, headers=headers)
            case "/login":
                return httpx2.Response(login)
            case "/ocs/v2.php/cloud/capabilities":
                data = {"capabilities": {"bruteforce": bruteforce} if bruteforce else {}}
                return httpx2.Response(200, json={"ocs": {"meta": {}, "data": data}})
            case _:
                raise NotImplementedError(request.url)

    return handler


async def examined(
    handler: Handler, base: str = CLOUD, *, multi_user: bool = False, host: str | None = None
) -> dict[str, Finding]:
    pool = open_pool(ca_bundle=None, user_agent="doctor", transport=httpx2.MockTransport(handler))
    async with pool:
        nextcloud = Nextcloud(NextcloudUrl.parse(base), pool)
        found = await look_there(
            nextcloud, pool, base=base, clock=lambda: NOW, multi_user=multi_user, host=host
        )
    return {finding.topic: finding for finding in found}


def here(settings: Settings) -> dict[str, Finding]:
    return {finding.topic: finding for finding in look_here(settings)}


async def test_a_healthy_nextcloud_passes_every_check() -> None:
    found = await examined(cloud())

    assert {finding.verdict for finding in found.values()} == {Verdict.OK}
    assert set(found) == {"Nextcloud", "support", "TLS", "clock", "pretty URLs", "throttling"}
    assert "34.0.3" in found["Nextcloud"].text


# Nextcloud's schedule: 32 until 26 September 2026, 33 until 17 February 2027, 34 and 35 a year from June and September.
@pytest.mark.parametrize(
    ("version", "verdict", "sentence"),
    [
        ("31.0.11", Verdict.WARN, "no security fixes any more, long since"),
        ("32.0.9", Verdict.WARN, "no security fixes any more, since the end of September 2026"),
        ("33.0.7", Verdict.OK, "until February 2027"),
        ("34.0.3", Verdict.OK, "until June 2027 (a year after its release; no day is published yet)"),
        ("35.0.0", Verdict.OK, "until September 2027 (a year after its release; no day is published yet)"),
        ("36.0.0", Verdict.OK, "none of the versions it was tested with: this program knows 32 to 35"),
    ],
)
async def test_the_end_of_a_version_is_named(version: str, verdict: Verdict, sentence: str) -> None:
    found = await examined(cloud(version=version))

    assert found["support"].verdict is verdict
    assert sentence in found["support"].text


@pytest.mark.parametrize(("version", "known"), [("32.0.1", False), ("33.0.7", True), ("34.0.3", False)])
async def test_what_is_known_to_be_wrong_with_a_version_is_said(version: str, *, known: bool) -> None:
    found = await examined(cloud(version=version))

    assert ("known issue" in found) is known
    if known:
        assert "app passwords may stop working after a while" in found["known issue"].text
        assert "#58509" in found["known issue"].text


async def test_a_nextcloud_that_is_too_old_fails_and_ends_the_report() -> None:
    found = await examined(cloud(version="27.1.0"))

    assert [finding.verdict for finding in found.values()] == [Verdict.FAIL]
    assert "28" in found["Nextcloud"].text


async def test_maintenance_mode_fails() -> None:
    found = await examined(cloud(maintenance=True))

    assert found["Nextcloud"].verdict is Verdict.FAIL
    assert "maintenance" in found["Nextcloud"].text


async def test_nothing_there_fails_with_what_to_do() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    found = await examined(refuse)

    assert found["Nextcloud"].verdict is Verdict.FAIL
    # The address as it is used, in which a mistake can be seen.
    assert found["Nextcloud"].text.endswith(f"(The address is {CLOUD}.)")


async def test_a_certificate_that_is_not_accepted_is_named_as_such() -> None:
    def untrusted(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed", request=request)

    found = await examined(untrusted)

    assert [finding.verdict for finding in found.values()] == [Verdict.FAIL]


async def test_a_connection_that_breaks_off_is_a_failure_and_no_trace() -> None:
    healthy = cloud()

    def breaking(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/login":
            raise httpx2.ReadError("gone", request=request)
        return healthy(request)

    found = await examined(breaking)

    assert found["network"].verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("base", "verdict"),
    [
        ("https://cloud.example.org", Verdict.OK),
        ("http://127.0.0.1:8080", Verdict.OK),
        ("http://cloud.example.org", Verdict.WARN),
    ],
)
async def test_plain_http_is_fine_on_this_computer_alone(base: str, verdict: Verdict) -> None:
    found = await examined(cloud(), base)

    assert found["TLS"].verdict is verdict


@pytest.mark.parametrize(
    ("date", "verdict"),
    [
        (format_datetime(NOW - timedelta(seconds=20), usegmt=True), Verdict.OK),
        (format_datetime(NOW - timedelta(minutes=5), usegmt=True), Verdict.WARN),
        ("yesterday", Verdict.WARN),
        (None, Verdict.WARN),
    ],
)
async def test_clocks_that_differ_are_a_warning(date: str | None, verdict: Verdict) -> None:
    found = await examined(cloud(date=date))

    assert found["clock"].verdict is verdict


async def test_without_pretty_urls_all_is_well_too() -> None:
    found = await examined(cloud(login=404))

    assert found["pretty URLs"].verdict is Verdict.OK
    assert "off" in found["pretty URLs"].text


@pytest.mark.parametrize(
    ("throttle", "verdict"),
    [
        ({"delay": 25000, "allow-listed": False}, Verdict.FAIL),
        ({"delay": 400, "allow-listed": False}, Verdict.WARN),
        ({"delay": 25000, "allow-listed": True}, Verdict.OK),
        ({"delay": "often"}, Verdict.OK),
        ({}, Verdict.OK),
    ],
)
async def test_throttling_of_our_address_is_seen_without_a_login(
    throttle: dict[str, object], verdict: Verdict
) -> None:
    found = await examined(cloud(throttle=throttle))

    assert found["throttling"].verdict is verdict


@pytest.mark.parametrize(
    ("allowed", "verdict"),
    [(False, Verdict.WARN), (True, Verdict.OK)],
)
async def test_an_address_that_many_people_share_should_be_on_the_allow_list(
    *, allowed: bool, verdict: Verdict
) -> None:
    found = await examined(cloud(throttle={"delay": 0, "allow-listed": allowed}), multi_user=True)

    assert found["throttling"].verdict is verdict


async def test_an_internal_address_is_asked_under_the_public_name() -> None:
    healthy, names = cloud(), set[str]()

    def handler(request: httpx2.Request) -> httpx2.Response:
        names.add(request.headers["Host"])
        return healthy(request)

    await examined(handler, "http://nextcloud.internal", host="cloud.example.org")

    assert "cloud.example.org" in names


@pytest.mark.process
def test_a_fresh_computer_has_nothing_to_complain_about(monkeypatch: pytest.MonkeyPatch) -> None:
    # Anyone who works on a second checkout has the installed one on the path as well.
    others = [entry for entry in sys.path if not Path(entry, "nextcloud_mcp_server").is_dir()]
    monkeypatch.setattr(sys, "path", [str(Path(checks.__file__).parents[3]), *others])

    found = here(load(nextcloud_host=CLOUD))

    assert {finding.verdict for finding in found.values()} == {Verdict.OK}
    assert set(found) == {"settings", "packages", "data folder", "keys", "documents"}


@pytest.mark.process
def test_a_key_file_with_something_else_is_named_and_not_the_variable() -> None:
    settings = load()
    settings.open_data_dir()
    settings.key_file.write_text("junk")

    keys = here(settings)["keys"]

    assert keys.verdict is Verdict.FAIL
    assert keys.text.startswith(f"{settings.key_file} holds something that is not a key")


@pytest.mark.process
def test_a_misspelt_setting_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTCLOUD_USER", "alice")

    assert here(load())["settings"].verdict is Verdict.WARN


@pytest.mark.process
def test_a_folder_or_key_file_that_others_can_read_is_a_warning_with_the_command() -> None:
    settings = load()
    settings.open_data_dir().chmod(0o755)
    load_or_create_key_file(settings.key_file)
    settings.key_file.chmod(0o644)

    found = here(settings)

    assert found["data folder"].verdict is Verdict.WARN
    assert "chmod 700" in found["data folder"].text
    assert found["keys"].verdict is Verdict.WARN
    assert "chmod 600" in found["keys"].text


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="rights are kept in access lists there")
def test_a_secret_s_file_that_others_can_read_is_a_warning_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "database-url"
    file.write_text("postgresql://mcp:hunter2@postgres/mcp\n")
    monkeypatch.setenv("DATABASE_URL_FILE", str(file))
    file.chmod(0o640)
    shared = here(load())["secrets"]
    file.chmod(0o400)

    assert (shared.verdict, "hunter2" in shared.text) == (Verdict.WARN, False)
    assert shared.text.endswith(f"which DATABASE_URL_FILE names: run chmod 600 {file}")
    assert "secrets" not in here(load())


@pytest.mark.process
def test_files_of_this_person_alone_are_fine() -> None:
    settings = load()
    settings.open_data_dir()
    load_or_create_key_file(settings.key_file)

    found = here(settings)

    assert (found["data folder"].verdict, found["keys"].verdict) == (Verdict.OK, Verdict.OK)


def no_spec(_name: str) -> None:
    return None


@pytest.mark.process
def test_metrics_without_their_library_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    working = here(load(metrics_port=9464))["metrics"]
    monkeypatch.setattr(measuring, "find_spec", no_spec)

    failing = here(load(metrics_port=9464))["metrics"]

    assert (working.verdict, failing.verdict) == (Verdict.OK, Verdict.FAIL)
    assert "http://127.0.0.1:9464/metrics" in working.text
    assert "the extra 'metrics'" in failing.text
    assert "metrics" not in here(load())


@pytest.mark.process
def test_a_data_folder_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")

    assert here(load())["data folder"].verdict is Verdict.FAIL


@pytest.mark.process
def test_a_key_that_is_none_fails_without_being_shown() -> None:
    finding = here(load(token_encryption_keys="hunter2"))["keys"]

    assert finding.verdict is Verdict.FAIL
    assert "hunter2" not in finding.text


@pytest.mark.process
def test_given_keys_that_are_good_are_fine(tmp_path: Path) -> None:
    texts, _ = load_or_create_key_file(tmp_path / "other.key")

    assert here(load(token_encryption_keys=tuple(texts)))["keys"].verdict is Verdict.OK


async def test_a_database_that_is_not_there_yet_is_fine() -> None:
    finding = await look_at_database(load())

    assert finding.verdict is Verdict.OK
    assert "is set up at first use" in finding.text


async def test_a_database_server_that_is_away_fails_without_its_password() -> None:
    finding = await look_at_database(load(database_url="postgresql://mcp:hunter2@127.0.0.1:9/mcp"))

    assert finding.verdict is Verdict.FAIL
    assert "hunter2" not in finding.text


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("CREATE TABLE oc_users (uid TEXT)", "another program, such as 'oc_users'"),
        ("CREATE TABLE nextcloud_mcp_version AS SELECT '9999' AS version_num", "newer version"),
    ],
)
async def test_a_database_that_a_server_would_refuse_fails(
    tmp_path: Path, statement: str, sentence: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute(statement)

    finding = await look_at_database(load(database_url=f"sqlite:///{tmp_path / 'x.db'}"))

    assert finding.verdict is Verdict.FAIL
    assert sentence in finding.text


async def test_keys_of_another_database_fail() -> None:
    async with open_database(load(token_encryption_keys=new_key())):
        pass

    finding = await look_at_database(load(token_encryption_keys=new_key()))

    assert finding.verdict is Verdict.FAIL
    assert "was sealed with another key" in finding.text


async def test_a_damaged_database_fails_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database at all, though long enough for one. " * 30)

    finding = await look_at_database(load(database_url=f"sqlite:///{tmp_path / 'x.db'}"))

    assert finding.verdict is Verdict.FAIL
    assert "backup" in finding.text


@pytest.mark.process
def test_another_package_of_our_name_on_the_path_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nextcloud_mcp_server").mkdir()
    (tmp_path / "nextcloud_mcp_server" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    finding = here(load())["packages"]

    assert finding.verdict is Verdict.WARN
    assert str(tmp_path) in finding.text


@pytest.mark.process
def test_another_distribution_of_our_name_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "nextcloud_mcp_server-9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nextcloud-mcp-server\nVersion: 9.0\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nnextcloud-mcp-server = elsewhere:main\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    finding = here(load())["packages"]

    assert finding.verdict is Verdict.WARN
    assert "another project of that name" in finding.text


@pytest.mark.process
def test_an_installation_without_metadata_is_taken_for_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])

    assert here(load())["packages"].verdict is Verdict.OK


def test_the_report_is_plain_away_from_a_terminal_and_tells_of_a_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failed = report([Finding(Verdict.OK, "keys", "fine"), Finding(Verdict.FAIL, "TLS", "do this.")])

    assert failed
    assert capsys.readouterr().out == "ok    keys: fine\nfail  TLS: do this.\n"


@pytest.mark.process
def test_without_an_address_the_doctor_fails_and_says_how_to_give_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = check(load())

    assert code == 1
    assert "--nextcloud" in capsys.readouterr().out


@pytest.mark.process
def test_an_unreachable_address_is_reported_through_the_real_network(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = check(load(nextcloud_host="http://127.0.0.1:9"))

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[-1].startswith("fail  Nextcloud")
    assert all(line.startswith(("ok  ", "warn", "fail")) for line in lines)


@pytest.mark.process
def test_for_many_people_the_identity_provider_and_the_clients_are_looked_at_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nowhere = "http://127.0.0.1:9"
    settings = load(
        mode="oidc",
        nextcloud_host=nowhere,
        nextcloud_public_url="http://127.0.0.1:9/public",
        nextcloud_mcp_server_url="http://127.0.0.1:10",
        token_encryption_keys=tuple(load_or_create_key_file(load().open_data_dir() / "other.key")[0]),
        oidc_issuer=nowhere,
        oidc_client_id="nextcloud-mcp",
        nextcloud_oauth_client_id="at-nextcloud",
        nextcloud_oauth_client_secret="a-secret",
    )

    code = check(settings)

    out = capsys.readouterr().out
    assert code == 1
    assert "fail  Nextcloud: " in out
    assert "fail  identity provider: " in out
    assert "fail  OAuth2 client: " in out
    assert "warn  public address: " in out
    assert "warn  own address: " in out
    assert "a-secret" not in out

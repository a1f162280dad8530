import io
import re
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr, TypeAdapter

from nextcloud_mcp_server.commands.setup import (
    about_address,
    ask_for_credential,
    ask_to_allow,
    client_name,
    own_address,
    setup_nextcloud,
)
from nextcloud_mcp_server.errors import (
    ConfigurationError,
    CredentialRejected,
    Forbidden,
    NextcloudError,
    NotFound,
    Unreachable,
)
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.oauth2_admin import (
    RegisteredClient,
    SecurityPage,
    allow_by_hand,
    registered_redirect,
)
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import DEFAULT_APPS, Sandbox
from nextcloud_mcp_server.sandbox.profile import ProfileName
from nextcloud_mcp_server.settings.environment import Draft, load_draft

pytestmark = pytest.mark.usefixtures("own_data_dir")

CLOUD = "http://127.0.0.1:8080"
MCP = "https://mcp.example.org"
REDIRECT = f"{MCP}/oauth/callback/nextcloud"
NAME = "Nextcloud MCP server at mcp.example.org"

Capture = pytest.CaptureFixture[str]
Handler = Callable[[httpx2.Request], httpx2.Response]


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


def draft(**overrides: object) -> Draft:
    return load_draft(nextcloud_host=CLOUD, nextcloud_mcp_server_url=MCP, **overrides)


def credential_of(sandbox: Sandbox, uid: str = "admin") -> Callable[[], BasicCredential]:
    return lambda: BasicCredential(uid, SecretStr(sandbox.state.users[uid].password))


def changed(sandbox: Sandbox, path: str, answer: Handler) -> httpx2.AsyncBaseTransport:
    """The sandbox, with one path answered otherwise."""
    inner = httpx2.ASGITransport(sandbox.app)

    class Changed(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path == path:
                return answer(request)
            return await inner.handle_async_request(request)

    return Changed()


def set_up(sandbox: Sandbox, settings: Draft | None = None, *, uid: str = "admin") -> None:
    transport = httpx2.ASGITransport(sandbox.app)
    setup_nextcloud(settings or draft(), credential_of(sandbox, uid), transport=transport)


def test_the_client_is_made_and_its_settings_alone_go_to_stdout(sandbox: Sandbox, capsys: Capture) -> None:
    set_up(sandbox)

    (client,) = sandbox.state.oauth_clients
    out, err = capsys.readouterr()
    assert (client.name, client.redirect_uri) == (NAME, REDIRECT)
    assert out.splitlines() == [
        f"NEXTCLOUD_OAUTH_CLIENT_ID={client.client_id}",
        f"NEXTCLOUD_OAUTH_CLIENT_SECRET={client.client_secret}",
    ]
    assert client.client_secret not in err
    assert "Nextcloud sees this computer as 127.0.0.1" in err
    assert "then run 'nextcloud-mcp-server doctor'" in err


@pytest.mark.parametrize("version", ["32", "33"])
def test_an_app_password_registers_a_client_at_nextcloud_32_and_33(
    version: ProfileName, capsys: Capture
) -> None:
    sandbox = Sandbox.demo(version=version)
    app_password = sandbox.state.new_app_password(sandbox.state.users["admin"])

    setup_nextcloud(
        draft(),
        lambda: BasicCredential("admin", SecretStr(app_password.secret)),
        transport=httpx2.ASGITransport(sandbox.app),
    )

    assert "NEXTCLOUD_OAUTH_CLIENT_ID=" in capsys.readouterr().out


@pytest.mark.parametrize("version", ["34", "35"])
def test_an_app_password_that_nextcloud_34_refuses_leads_to_the_three_ways_that_are_left(
    version: ProfileName,
) -> None:
    sandbox = Sandbox.demo(version=version)
    app_password = sandbox.state.new_app_password(sandbox.state.users["admin"])

    with pytest.raises(Forbidden) as caught:
        setup_nextcloud(
            draft(),
            lambda: BasicCredential("admin", SecretStr(app_password.secret)),
            transport=httpx2.ASGITransport(sandbox.app),
        )

    sentence = str(caught.value)
    assert "only with the account's own password, and this was an app password" in sentence
    assert f"occ oauth2:add-client '{NAME}' {REDIRECT}" in sentence
    assert "Administration settings → Security → OAuth 2.0 clients" in sentence
    assert "set NEXTCLOUD_OAUTH_CLIENT_ID and NEXTCLOUD_OAUTH_CLIENT_SECRET" in sentence
    assert "type the account's own password" in sentence
    assert sandbox.state.oauth_clients == []


@pytest.mark.parametrize("headers", [{"X-NC-Auth-NotConfirmed": "true"}, {}])
def test_a_refusal_is_known_by_its_header_or_by_its_words(headers: dict[str, str], sandbox: Sandbox) -> None:
    message = '{"message":"Password confirmation is required"}' if not headers else "{}"

    with pytest.raises(Forbidden, match="only with the account's own password"):
        setup_nextcloud(
            draft(),
            credential_of(sandbox),
            transport=changed(
                sandbox,
                "/index.php/apps/oauth2/clients",
                lambda _: httpx2.Response(403, text=message, headers=headers),
            ),
        )


def test_what_was_typed_is_in_no_output(sandbox: Sandbox, capsys: Capture) -> None:
    typed = credential_of(sandbox)
    setup_nextcloud(draft(), typed, transport=httpx2.ASGITransport(sandbox.app))

    out, err = capsys.readouterr()
    assert typed().secret.get_secret_value() not in out + err


def test_no_request_of_setup_counts_as_failed(sandbox: Sandbox) -> None:
    set_up(sandbox)

    assert sandbox.throttle.delay_ms("127.0.0.1") == 0
    assert sandbox.token_throttle.delay_ms("127.0.0.1") == 0


def test_a_second_client_of_the_same_name_is_refused_with_how_to_delete_the_first(sandbox: Sandbox) -> None:
    set_up(sandbox)

    with pytest.raises(ConfigurationError, match="is registered already") as caught:
        set_up(sandbox)

    assert "or delete it under Administration settings → Security → OAuth 2.0 clients" in str(caught.value)
    assert len(sandbox.state.oauth_clients) == 1


def test_a_client_of_another_server_is_no_obstacle(sandbox: Sandbox) -> None:
    sandbox.state.new_oauth_client("Nextcloud MCP server at other.example.org", "https://other.example.org/x")

    set_up(sandbox)

    assert len(sandbox.state.oauth_clients) == 2


def test_a_page_that_does_not_list_the_clients_is_said_and_the_client_made(
    sandbox: Sandbox, capsys: Capture
) -> None:
    page = '<input type="hidden" id="initial-state-oauth2-clients" value="bm8ganNvbg==">'
    transport = changed(
        sandbox, "/index.php/settings/admin/security", lambda _: httpx2.Response(200, html=page)
    )

    setup_nextcloud(draft(), credential_of(sandbox), transport=transport)

    err = capsys.readouterr().err
    assert f"see that no other “{NAME}” is under Administration settings" in err
    assert "Nextcloud did not say under which address it sees this computer" in err
    assert len(sandbox.state.oauth_clients) == 1


def test_a_wrong_password_makes_nothing_and_says_that_it_was_counted(sandbox: Sandbox) -> None:
    transport = httpx2.ASGITransport(sandbox.app)

    with pytest.raises(CredentialRejected, match="Nothing was made; failed logins are counted"):
        setup_nextcloud(draft(), lambda: BasicCredential("admin", SecretStr("wrong")), transport=transport)

    assert sandbox.state.oauth_clients == []


def test_a_user_that_is_no_administrator_is_told_so(sandbox: Sandbox) -> None:
    with pytest.raises(Forbidden, match="it is no administrator's"):
        set_up(sandbox, uid="alice")


def test_a_nextcloud_without_oauth2_is_named_as_such() -> None:
    sandbox = Sandbox.demo(apps=DEFAULT_APPS - {"oauth2"})

    with pytest.raises(NotFound, match="The app “oauth2” is not installed or not enabled"):
        set_up(sandbox)


def test_a_client_that_is_not_answered_for_as_made_is_an_error(sandbox: Sandbox) -> None:
    transport = changed(sandbox, "/index.php/apps/oauth2/authorize", lambda _: httpx2.Response(200, html="?"))

    with pytest.raises(NextcloudError, match=f"look for “{NAME}” under"):
        setup_nextcloud(draft(), credential_of(sandbox), transport=transport)


def test_an_internal_address_is_asked_under_the_public_name(sandbox: Sandbox) -> None:
    sandbox.state.trusted_domains = frozenset({"cloud.example.org"})

    set_up(sandbox, draft(nextcloud_public_url="https://cloud.example.org"))

    assert len(sandbox.state.oauth_clients) == 1


def test_the_name_holds_the_host_of_this_server() -> None:
    assert client_name(draft(elicitation_callback_url=f"{MCP}/oauth/callback")) == NAME


def test_name_and_password_can_come_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("admin\naaaaa-bbbbb\n"))

    assert ask_for_credential() == BasicCredential("admin", SecretStr("aaaaa-bbbbb"))


def test_an_empty_pipe_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("admin\n"))

    with pytest.raises(ConfigurationError, match="send them as two lines to stdin"):
        ask_for_credential()


def test_at_a_terminal_both_are_asked_for_and_the_password_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def unseen(prompt: str) -> str:
        assert "not shown" in prompt
        return "aaaaa-bbbbb"

    monkeypatch.setattr("sys.stdin", Terminal("admin\n"))
    monkeypatch.setattr("getpass.getpass", unseen)

    found = ask_for_credential()

    out, err = capsys.readouterr()
    assert found == BasicCredential("admin", SecretStr("aaaaa-bbbbb"))
    assert "aaaaa" not in out + err


@pytest.mark.parametrize(
    ("page", "own", "sentence"),
    [
        (
            SecurityPage((), "192.0.2.7", True),
            "192.0.2.7",
            "sees this computer as 192.0.2.7, which is on its allow list already.",
        ),
        (
            SecurityPage((), "192.0.2.7", False),
            "192.0.2.7",
            "add 192.0.2.7, mask 32, under Administration settings",
        ),
        (SecurityPage((), "2001:db8::7", None), "2001:db8::7", "add 2001:db8::7, mask 128, under"),
        (
            SecurityPage((), "192.0.2.7", False),
            "192.0.2.7",
            "run 'occ config:app:set bruteForce whitelist_",
        ),
        (
            SecurityPage((), "2001:db8::7", None),
            "2001:db8::7",
            "--value=2001:db8::7/128' on Nextcloud's machine",
        ),
        (SecurityPage((), "10.0.0.1", False), "192.0.2.7", "or with 'occ config:app:set bruteForce"),
        (
            SecurityPage((), None, None),
            "192.0.2.7",
            "/32' on Nextcloud's machine, if it is 192.0.2.7)",
        ),
        (SecurityPage((), None, None), None, "whitelist (app “Brute-force settings”). Never add"),
        (
            SecurityPage((), "10.0.0.1", False),
            "192.0.2.7",
            "which is not its own address (192.0.2.7), but probably that of a proxy",
        ),
        (
            SecurityPage((), "10.0.0.1", False),
            None,
            "which is not its own address, but probably that of a proxy or gateway. Do NOT",
        ),
        (
            SecurityPage((), None, None),
            "192.0.2.7",
            "Never add the address of a proxy or gateway that others come through too.",
        ),
    ],
)
def test_the_address_to_allow_is_ours_and_never_a_proxy_s(
    page: SecurityPage, own: str | None, sentence: str
) -> None:
    assert sentence in about_address(page, own)


def seen_at_own_address(
    sandbox: Sandbox, *, allow: httpx2.Response | None = None
) -> httpx2.AsyncBaseTransport:
    """The sandbox, to which we come from the address that our connection leaves from.

    `allow` is the answer to what changes the allow list, where it is not the sandbox's.
    """
    inner = httpx2.ASGITransport(sandbox.app, client=("192.0.2.7", 4711))

    class Connected(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if allow is not None and request.url.path.endswith("/ipwhitelist"):
                return allow
            answer = await inner.handle_async_request(request)
            answer.extensions = {"network_stream": Stream()}
            return answer

    return Connected()


def set_up_there(
    sandbox: Sandbox, *, answer: bool, allow: httpx2.Response | None = None, uid: str = "admin"
) -> list[str]:
    """Set up where the server runs; what was asked about the allow list."""
    asked: list[str] = []

    def may_allow(address: str) -> bool:
        asked.append(address)
        return answer

    transport = seen_at_own_address(sandbox, allow=allow)
    setup_nextcloud(draft(), credential_of(sandbox, uid), transport=transport, may_allow=may_allow)
    return asked


def test_setup_puts_this_server_s_address_on_the_allow_list(sandbox: Sandbox, capsys: Capture) -> None:
    asked = set_up_there(sandbox, answer=True)

    assert asked == ["192.0.2.7"]
    assert sandbox.state.allow_listed == {"192.0.2.7"}
    assert "sees this computer as 192.0.2.7, which is on its allow list now." in capsys.readouterr().err


def test_setup_prints_the_command_where_the_operator_says_no(sandbox: Sandbox, capsys: Capture) -> None:
    set_up_there(sandbox, answer=False)

    assert sandbox.state.allow_listed == set()
    err = capsys.readouterr().err
    assert "--value=192.0.2.7/32' on Nextcloud's machine, or add 192.0.2.7, mask 32" in err
    assert "could not be put" not in err


def test_setup_does_not_ask_where_the_address_is_on_the_list_already(sandbox: Sandbox) -> None:
    sandbox.state.allow_listed.add("192.0.2.7")

    assert set_up_there(sandbox, answer=True) == []


def test_setup_never_offers_the_address_of_a_proxy(sandbox: Sandbox) -> None:
    asked: list[str] = []

    setup_nextcloud(
        draft(),
        credential_of(sandbox),
        transport=httpx2.ASGITransport(sandbox.app),
        may_allow=lambda address: bool(asked.append(address)),
    )

    assert asked == []


def test_an_allow_list_that_cannot_be_changed_leaves_the_client_and_the_command(
    sandbox: Sandbox, capsys: Capture
) -> None:
    set_up_there(sandbox, answer=True, allow=httpx2.Response(404))

    out, err = capsys.readouterr()
    assert "NEXTCLOUD_OAUTH_CLIENT_SECRET=" in out
    assert "app “Brute-force settings” is not there, or switched off." in err
    assert "It could not be put on the allow list." in err
    assert "occ config:app:set bruteForce whitelist_" in err


def test_an_answer_that_changed_nothing_is_not_taken_for_done(sandbox: Sandbox, capsys: Capture) -> None:
    set_up_there(sandbox, answer=True, allow=httpx2.Response(200, json={}))

    assert "It could not be put on the allow list." in capsys.readouterr().err


def test_a_user_that_is_no_administrator_gets_the_two_commands_for_one(sandbox: Sandbox) -> None:
    with pytest.raises(Forbidden) as caught:
        set_up_there(sandbox, answer=True, uid="alice")

    assert f"occ oauth2:add-client '{NAME}' {REDIRECT}" in str(caught.value)
    assert "occ config:app:set bruteForce whitelist_" in str(caught.value)
    assert "--value=192.0.2.7/32" in str(caught.value)


def test_the_command_for_one_address_replaces_no_entry_of_another() -> None:
    commands = [allow_by_hand(address) for address in ("192.0.2.7", "192.0.2.8", "2001:db8::7")]

    assert len({re.search(r"whitelist_[0-9]+", command)[0] for command in commands}) == 3  # type: ignore[index]
    assert allow_by_hand("192.0.2.7") == commands[0]


def test_the_allow_list_is_not_offered_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    assert not ask_to_allow("192.0.2.7")


class Stream:
    """As much of a connection as is looked at."""

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return {"client_addr": ("192.0.2.7", 4711)}[name]


async def test_our_own_address_is_the_one_the_connection_leaves_from() -> None:
    def connected(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, extensions={"network_stream": Stream()})

    def broken(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadError("gone", request=request)

    found = [await _own(connected), await _own(lambda _: httpx2.Response(200)), await _own(broken)]

    assert found == ["192.0.2.7", None, None]
    assert ip_address("192.0.2.7").max_prefixlen == 32


async def _own(handler: Handler) -> str | None:
    async with open_pool(ca_bundle=None, user_agent="setup", transport=httpx2.MockTransport(handler)) as pool:
        return await own_address(pool, CLOUD)


async def test_where_a_client_s_answers_go_cannot_be_asked_of_a_nextcloud_that_is_away() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    def garbled(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.DecodingError("garbled", request=request)

    for handler in (refuse, garbled):
        pool = open_pool(ca_bundle=None, user_agent="setup", transport=httpx2.MockTransport(handler))
        async with pool:
            with pytest.raises(Unreachable):
                await registered_redirect(pool, NextcloudUrl.parse(CLOUD), "x")


def test_a_listed_client_is_read_as_nextcloud_writes_it() -> None:
    listed = '[{"id":2,"name":"rec oauth2","redirectUri":"http://client.test/callback","clientId":"x","clientSecret":""}]'

    (client,) = TypeAdapter(tuple[RegisteredClient, ...]).validate_json(listed)

    assert (client.id, client.name, client.redirect_uri) == (2, "rec oauth2", "http://client.test/callback")


def test_an_address_at_which_this_server_could_never_start_is_not_registered() -> None:
    with pytest.raises(ConfigurationError, match="NEXTCLOUD_MCP_SERVER_URL holds the path /tools"):
        load_draft(mode="builtin", nextcloud_host=CLOUD, nextcloud_mcp_server_url=f"{MCP}/tools")
    with pytest.raises(ConfigurationError, match="NEXTCLOUD_MCP_SERVER_URL ends in /mcp"):
        load_draft(nextcloud_host=CLOUD, nextcloud_mcp_server_url=f"{MCP}/mcp")


def test_the_client_can_be_written_into_files_once_and_is_not_printed(
    sandbox: Sandbox, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "made" / "here"
    transport = httpx2.ASGITransport(sandbox.app)

    setup_nextcloud(draft(), credential_of(sandbox), into=folder, transport=transport)
    setup_nextcloud(draft(), lambda: pytest.fail("asked again"), into=folder)

    (client,) = sandbox.state.oauth_clients
    assert (folder / "nextcloud-client-id").read_text() == f"{client.client_id}\n"
    assert (folder / "nextcloud-client-secret").read_text() == f"{client.client_secret}\n"
    assert (folder / "nextcloud-client-secret").stat().st_mode & 0o077 == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert client.client_secret not in told.err
    assert "Registered already" in told.err
    assert "delete nextcloud-client-id and nextcloud-client-secret there and run this again" in told.err


def test_nothing_is_made_where_its_secret_could_not_be_kept(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(ConfigurationError, match="so nothing was made: name another folder with --into"):
        setup_nextcloud(
            draft(),
            credential_of(sandbox),
            into=tmp_path / "file",
            transport=httpx2.ASGITransport(sandbox.app),
        )

    assert sandbox.state.oauth_clients == []


def test_a_client_that_was_half_written_is_no_client(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "nextcloud-client-id").write_text("an-id-whose-secret-was-lost\n")
    (tmp_path / ".nextcloud-client-secret.part").write_text("half")

    setup_nextcloud(
        draft(), credential_of(sandbox), into=tmp_path, transport=httpx2.ASGITransport(sandbox.app)
    )

    (client,) = sandbox.state.oauth_clients
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "nextcloud-client-id": f"{client.client_id}\n",
        "nextcloud-client-secret": f"{client.client_secret}\n",
    }


def test_a_secret_that_cannot_be_written_is_printed_rather_than_lost(
    sandbox: Sandbox, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "nextcloud-client-secret").mkdir()

    with pytest.raises(ConfigurationError, match="keep what is printed above"):
        setup_nextcloud(
            draft(), credential_of(sandbox), into=tmp_path, transport=httpx2.ASGITransport(sandbox.app)
        )

    (client,) = sandbox.state.oauth_clients
    assert f"NEXTCLOUD_OAUTH_CLIENT_SECRET={client.client_secret}" in capsys.readouterr().out

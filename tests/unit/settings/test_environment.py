import stat
from pathlib import Path

import pytest

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.logs import redact
from nextcloud_mcp_server.settings.document import check, configuration_page, env_example, tools_page, write
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.settings.names import FIELDS, OPTIONS
from nextcloud_mcp_server.storage.crypto import new_key
from nextcloud_mcp_server.tools.registry import CONNECTION, TOOLSETS

pytestmark = pytest.mark.usefixtures("bare_environment")

ROOT = Path(__file__).parents[3]
CLOUD = "https://cloud.example.org"


def refused(**overrides: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(**overrides)
    return str(caught.value)


def test_without_any_setting_the_defaults_of_one_person_hold() -> None:
    settings = load()

    assert settings.mode == "personal"
    assert settings.toolsets == ("notes", "files")
    assert settings.transport == "stdio"
    assert settings.host == "127.0.0.1"
    assert settings.warnings == ()


def test_variables_are_read_and_arguments_win_over_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTCLOUD_HOST", "https://env.example.org")
    monkeypatch.setenv("READ_ONLY", "true")
    monkeypatch.setenv("NEXTCLOUD_MCP_PORT", "9000")
    monkeypatch.setenv("EXCLUDE_TOOLS", "nc_files_delete, nc_notes_delete_note")

    settings = load(nextcloud_host=CLOUD, port=None)

    assert settings.nextcloud_host == CLOUD
    assert settings.read_only
    assert settings.port == 9000
    assert settings.exclude_tools == ("nc_files_delete", "nc_notes_delete_note")


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTCLOUD_HOST", "")

    assert load().nextcloud_host is None


def test_words_of_other_case_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("MODE", "Personal")

    settings = load()

    assert (settings.log_level, settings.mode) == ("debug", "personal")


def test_settings_cannot_be_changed() -> None:
    settings = load()

    with pytest.raises(ValueError, match="frozen"):
        settings.mode = "oidc"


def test_the_working_directory_s_env_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("NEXTCLOUD_HOST=https://evil.example.org\n")
    monkeypatch.chdir(tmp_path)

    assert load().nextcloud_host is None


def test_a_secret_can_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text("aaaaa-bbbbb\n")
    monkeypatch.setenv("NEXTCLOUD_USERNAME", "alice")
    monkeypatch.setenv("NEXTCLOUD_APP_PASSWORD_FILE", str(file))

    credential = load().operator_credential

    assert credential is not None
    assert (credential[0], credential[1].get_secret_value()) == ("alice", "aaaaa-bbbbb")


def test_a_secret_given_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_ENCRYPTION_KEYS", "abc")
    monkeypatch.setenv("TOKEN_ENCRYPTION_KEYS_FILE", str(tmp_path / "keys"))

    assert "TOKEN_ENCRYPTION_KEYS_FILE are both set" in refused()


@pytest.mark.parametrize(
    ("name", "file", "wrong"),
    [
        ("NEXTCLOUD_MCP_SECRET_FILE", "nowhere", "does not exist: check the path."),
        (
            "NEXTCLOUD_OAUTH_CLIENT_ID_FILE",
            "nowhere",
            "does not exist: 'nextcloud-mcp-server setup nextcloud --into' its folder writes it.",
        ),
        ("TOKEN_ENCRYPTION_KEYS_FILE", ".", "cannot be read as text: check path and rights."),
        (
            "TOKEN_ENCRYPTION_KEYS_FILE",
            "empty",
            "is empty: the command that should write it has failed, so run it again.",
        ),
    ],
)
def test_a_secret_file_that_holds_no_secret_is_refused_by_name(
    name: str, file: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setenv(name, str(tmp_path / file))

    assert refused() == f"{name} names a file that {wrong}"


def test_several_keys_are_split_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_ENCRYPTION_KEYS", "first,second")

    settings = load()

    assert [key.get_secret_value() for key in settings.token_encryption_keys] == ["first", "second"]
    assert "first" not in repr(settings)


def test_a_secret_that_is_too_short_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTCLOUD_MCP_SECRET", "hunter2")

    sentence = refused()

    assert "NEXTCLOUD_MCP_SECRET is too short" in sentence
    assert "hunter2" not in sentence


def test_the_other_name_of_the_address_is_read_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTCLOUD_URL", CLOUD)

    settings = load()

    assert settings.nextcloud_host == CLOUD
    assert settings.warnings == ("NEXTCLOUD_URL is read, but its name here is NEXTCLOUD_HOST: rename it.",)


def test_two_different_addresses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTCLOUD_URL", CLOUD)
    monkeypatch.setenv("NEXTCLOUD_HOST", "https://other.example.org")

    assert "name different servers" in refused()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("NEXTCLOUD_USER", "NEXTCLOUD_USER is not read: did you mean NEXTCLOUD_USERNAME?"),
        ("ELICITATION_TIMEOUT", "ELICITATION_TIMEOUT is not read: did you mean ELICITATION_DIALECT?"),
        ("TOKEN_QQQQQQQQQQ", "TOKEN_QQQQQQQQQQ is not read."),
        ("MOD", "MOD is not read: did you mean MODE?"),
        ("OIDC_CLIENTID", "OIDC_CLIENTID is not read: did you mean OIDC_CLIENT_ID?"),
        ("TOOLSET", "TOOLSET is not read: did you mean TOOLSETS?"),
        ("OIDC_CLIENT", "OIDC_CLIENT is not read: did you mean OIDC_CLIENT_ID?"),
        ("TRUSTED_PROXY", "TRUSTED_PROXY is not read: did you mean TRUSTED_PROXIES?"),
        ("INTROSPECTION_SECRET", "INTROSPECTION_SECRET is not read: did you mean it?"),
    ],
)
def test_a_variable_that_is_not_read_is_pointed_out(
    name: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")

    found = load().warnings

    assert len(found) == 1
    assert found[0].partition(":")[0] == sentence.partition(":")[0]
    assert ("did you mean" in found[0]) == ("did you mean" in sentence)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("READONLY", "true"),
        ("READ_ONY", "1"),
        ("REDA_ONLY", "yes"),
        ("read_only", "true"),
        ("NEXTCLOUD_MCP_READ_ONLY", "true"),
        ("MCP_READONLY", "true"),
        ("EXCLUDE_TOOL", "nc_notes_delete_note"),
    ],
)
def test_a_misspelt_limit_is_refused_since_more_would_be_allowed_than_was_meant(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)

    assert (
        f"{name} is not read; did you mean {'EXCLUDE_TOOLS' if 'TOOL' in name else 'READ_ONLY'}?" in refused()
    )


@pytest.mark.parametrize("name", ["MOD", "MODES", "mode", "MDOE", "NEXTCLOUD_MCP_MODE", "MCP_MODE"])
@pytest.mark.parametrize("text", ["builtin", " OIDC "])
def test_a_misspelt_mode_for_many_users_is_refused_since_all_would_act_as_one(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)

    assert (
        f"{name} is not read; did you mean MODE? Without it this is a server for a single user" in refused()
    )


@pytest.mark.parametrize(
    ("variables", "mode"),
    [
        # Its value is none of many users.
        ({"MOD": "fast", "NODE": "x"}, "personal"),
        # It asks for what holds anyway, or stands beside the right one.
        ({"READONLY": "false"}, "personal"),
        ({"READONLY": "true", "READ_ONLY": "true"}, "personal"),
        # It belongs to another program, as it has no effect in this mode.
        ({"ALLOWED_GROUP": "wheel"}, "personal"),
        ({"ON_READ_ONLY": "true", "READ_MOSTLY": "1"}, "personal"),
    ],
)
def test_a_start_does_not_fail_for_a_limit_that_nobody_misses(
    variables: dict[str, str], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)

    assert load(mode=mode).mode == mode


def test_a_group_that_would_let_everybody_in_is_refused_where_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MODE", "builtin")
    monkeypatch.setenv("ALLOWED_GROUP", "staff")

    assert "did you mean ALLOWED_GROUPS?" in refused()


def test_everything_that_is_wrong_is_in_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MODE", "oidc")
    monkeypatch.setenv("READONLY", "true")
    monkeypatch.setenv("HOLD_SECONDS", "soon")
    monkeypatch.setenv("TOOLSETS", "note")
    monkeypatch.setenv("NEXTCLOUD_PUBLIC_URL", "cloud.example.org")
    monkeypatch.setenv("NEXTCLOUD_MCP_SERVER_URL", "http://mcp.example.org")
    monkeypatch.setenv("OIDC_ISSUER", "https://id.example.org/.well-known/openid-configuration")

    lines = refused().splitlines()

    starts = (
        "6 settings are wrong:",
        "  READONLY is not read",
        "  Invalid HOLD_SECONDS",
        "  NEXTCLOUD_PUBLIC_URL",
    )
    starts += (
        "  OIDC_ISSUER is the address",
        "  Unknown toolset",
        "  NEXTCLOUD_MCP_SERVER_URL is not encrypted",
    )
    assert [line for line, start in zip(lines, starts, strict=False) if not line.startswith(start)] == []
    assert lines[len(starts)] == "5 settings are missing for MODE=oidc:"
    assert [line.partition(":")[0].strip() for line in lines[len(starts) + 1 :]] == [
        "NEXTCLOUD_HOST",
        "TOKEN_ENCRYPTION_KEYS",
        "OIDC_CLIENT_ID",
        "NEXTCLOUD_OAUTH_CLIENT_ID",
        "NEXTCLOUD_OAUTH_CLIENT_SECRET",
    ]


def test_all_files_that_cannot_be_read_are_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTCLOUD_MCP_SECRET_FILE", "/nowhere")
    monkeypatch.setenv("TOKEN_ENCRYPTION_KEYS_FILE", "/nowhere")

    assert refused().startswith("2 settings are wrong:")


@pytest.mark.parametrize(
    "name",
    ["NODE", "CODE", "MODEL", "MODE_STANDARD", "MODULE", "SHELL", "NEXTCLOUD_TEST_URL", "TOOLS", "DATABASE"],
)
def test_other_programs_variables_are_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")

    assert load().warnings == ()


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"mode": "builtin"}, "5 settings are missing for MODE=builtin"),
        ({"mode": "many"}, "Invalid MODE: use personal, oidc or builtin."),
        ({"nextcloud_public_url": "cloud.example.org"}, "did you mean https://cloud.example.org?"),
        ({"nextcloud_host": "ftp://cloud.example.org"}, "NEXTCLOUD_HOST is not a web address"),
        ({"nextcloud_host": "https://"}, "NEXTCLOUD_HOST is not a web address"),
        ({"nextcloud_host": " "}, "NEXTCLOUD_HOST is empty: write it like"),
        ({"nextcloud_host": "https://[::1"}, "NEXTCLOUD_HOST is not a web address"),
        ({"nextcloud_host": "https://cloud.example.org:99999"}, "NEXTCLOUD_HOST is not a web address"),
        ({"nextcloud_public_url": "https://a.example.org/?x=1"}, "NEXTCLOUD_PUBLIC_URL is not a web address"),
        ({"nextcloud_host": "https://alice:pw@cloud.example.org"}, "must not hold a name or password"),
        ({"nextcloud_ca_bundle": "/nowhere.pem"}, "NEXTCLOUD_CA_BUNDLE names no file"),
        ({"nextcloud_username": "alice"}, "NEXTCLOUD_USERNAME needs NEXTCLOUD_APP_PASSWORD"),
        ({"nextcloud_app_password": "secret"}, "NEXTCLOUD_APP_PASSWORD needs NEXTCLOUD_USERNAME"),
        (
            {"host": "0.0.0.0", "no_local_auth": True},
            "works on loopback only, not on 0.0.0.0",
        ),
        ({"no_local_auth": True, "nextcloud_mcp_secret": "s" * 24}, "has no use with --no-local-auth"),
        ({"database_url": "mysql://db/x"}, "DATABASE_URL names another database than SQLite or PostgreSQL"),
        ({"nextcloud_host": "https://*.example.org"}, "NEXTCLOUD_HOST holds a wildcard"),
        ({"toolsets": "notes,note"}, "Unknown toolset 'note' in TOOLSETS; did you mean 'notes'?"),
        (
            {"toolsets": "note,filez,files"},
            "Unknown toolset 'note' in TOOLSETS; did you mean 'notes'? Unknown toolset 'filez' in TOOLSETS",
        ),
        ({"hold_seconds": 900}, "Invalid HOLD_SECONDS: use 300 or less."),
        ({"port": "http"}, "Invalid NEXTCLOUD_MCP_PORT: use a whole number."),
        ({"read_only": "maybe"}, "Invalid READ_ONLY: use true or false."),
        ({"transport": "sse"}, "Invalid --transport"),
        ({"tool_sets": "notes"}, "There is no setting TOOL_SETS: did you mean TOOLSETS?"),
    ],
)
def test_what_cannot_work_or_be_safe_is_refused_with_the_fix(
    overrides: dict[str, object], sentence: str
) -> None:
    assert sentence in refused(**overrides)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"nextcloud_host": "http://cloud.example.org"}, "NEXTCLOUD_HOST is not encrypted"),
        ({"host": "0.0.0.0", "transport": "http"}, "listens on 0.0.0.0, not only on this computer"),
        ({"sandbox": True, "nextcloud_host": CLOUD}, "NEXTCLOUD_HOST is not used with --sandbox."),
        ({"metrics_port": 9464}, "METRICS_PORT has no effect over stdio: set it for a server over HTTP."),
        ({"shutdown_drain_seconds": 5}, "SHUTDOWN_DRAIN_SECONDS has no effect over stdio"),
        (
            {"otel_exporter_otlp_endpoint": "https://c.example.org"},
            "OTEL_EXPORTER_OTLP_ENDPOINT has no effect over stdio",
        ),
    ],
)
def test_what_is_probably_not_meant_is_a_warning(overrides: dict[str, object], sentence: str) -> None:
    found = load(**overrides).warnings

    assert len(found) == 1
    assert sentence in found[0]


def test_the_log_shows_a_warning_whole() -> None:
    (sentence,) = load(host="0.0.0.0", transport="http").warnings

    assert redact(sentence) == sentence


def test_plain_http_on_this_computer_is_no_warning() -> None:
    assert load(nextcloud_host="http://127.0.0.1:8080/nextcloud").warnings == ()


def test_loading_makes_no_folder_and_first_use_makes_it_for_one_person(tmp_path: Path) -> None:
    settings = load(data_dir=tmp_path / "deep" / "data")
    existed = settings.data_path.exists()

    made = settings.open_data_dir()

    assert not existed
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert settings.open_data_dir() == made
    assert settings.key_file.parent == settings.secret_file.parent == made


def test_trying_the_sandbox_first_leaves_the_folder_of_real_connections_to_one_person(tmp_path: Path) -> None:
    load(data_dir=tmp_path / "data", sandbox=True).open_data_dir()

    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_data_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match="set DATA_DIR to another folder"):
        load(data_dir=tmp_path / "file" / "data").open_data_dir()


def test_the_sandbox_has_a_data_folder_of_its_own(tmp_path: Path) -> None:
    assert load(data_dir=tmp_path, sandbox=True).data_path == tmp_path / "sandbox"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (None, "sqlite+aiosqlite:////data/state.db"),
        ("sqlite:////srv/x.db", "sqlite+aiosqlite:////srv/x.db"),
        ("sqlite+aiosqlite:////srv/x.db", "sqlite+aiosqlite:////srv/x.db"),
        ("postgresql://mcp@db/x", "postgresql+asyncpg://mcp@db/x"),
        ("postgres://mcp@db/x", "postgresql+asyncpg://mcp@db/x"),
        ("postgresql+asyncpg://mcp@db/x", "postgresql+asyncpg://mcp@db/x"),
    ],
)
def test_the_database_s_address_has_the_asynchronous_driver(url: str | None, address: str) -> None:
    assert load(data_dir="/data", database_url=url).database_address == address


def test_all_toolsets_are_spelled_out() -> None:
    assert set(load(toolsets="all").enabled_toolsets) == TOOLSETS.keys() - {CONNECTION}
    assert load(toolsets="notes").enabled_toolsets == ("notes",)


def test_the_address_is_required_only_where_it_is_used() -> None:
    assert load(nextcloud_host=CLOUD).require_nextcloud() == CLOUD
    with pytest.raises(ConfigurationError, match="name yours with --nextcloud"):
        load().require_nextcloud()
    assert load().operator_credential is None


def test_every_field_is_documented_and_has_a_variable_or_an_option() -> None:
    assert set(Settings.model_fields) == set(FIELDS) | OPTIONS
    assert all(field.description for field in Settings.model_fields.values())


def test_the_committed_pages_are_those_that_the_program_prints() -> None:
    assert (ROOT / ".env.example").read_text(encoding="utf-8") == env_example()
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == configuration_page()
    assert (ROOT / "docs" / "tools.md").read_text(encoding="utf-8") == tools_page()


def test_a_page_that_differs_is_found_and_written_again(tmp_path: Path) -> None:
    for folder in ("docs", "nextcloud_mcp_server/tools"):
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="make docs"):
        check(str(tmp_path))

    write(str(tmp_path))

    check(str(tmp_path))


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("cloud.example.org", "https://cloud.example.org"),
        (" cloud.example.org:8443/nextcloud ", "https://cloud.example.org:8443/nextcloud"),
        ("localhost:8080", "http://localhost:8080"),
        # A colon or a slash that was left out or typed twice: the scheme was taken for the host.
        ("http:/127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https//cloud.example.org", "https://cloud.example.org"),
        ("https:///cloud.example.org/login", "https://cloud.example.org"),
        ("http:8080", "https://http:8080"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("[::1]:8080/nextcloud", "http://[::1]:8080/nextcloud"),
        ("localhost.example.org", "https://localhost.example.org"),
        ("cloud.example.org/login", "https://cloud.example.org"),
        ("https://cloud.example.org/login?redirect_url=/apps/files", "https://cloud.example.org"),
        ("https://cloud.example.org/login/v2/flow/abc", "https://cloud.example.org"),
        ("https://cloud.example.org/index.php", "https://cloud.example.org"),
        ("https://example.org/nextcloud/index.php/apps/files/", "https://example.org/nextcloud"),
        ("https://cloud.example.org/apps/dashboard/", "https://cloud.example.org"),
        ("https://cloud.example.org/apps/files/?dir=/&fileid=1", "https://cloud.example.org"),
        ("https://cloud.example.org/apps/deck/#/board/1", "https://cloud.example.org"),
        ("https://cloud.example.org/settings/user/security", "https://cloud.example.org"),
        ("https://cloud.example.org/remote.php/dav/files/alice", "https://cloud.example.org"),
        ("https://cloud.example.org/status.php", "https://cloud.example.org"),
        ("https://cloud.example.org/f/123", "https://cloud.example.org"),
        # Where a Nextcloud may really be installed.
        ("https://example.org/apps/nextcloud", "https://example.org/apps/nextcloud"),
        ("https://example.org/apps/nextcloud/apps/files", "https://example.org/apps/nextcloud"),
        ("https://example.org/loginserver", "https://example.org/loginserver"),
        ("http://cloud.example.org", "http://cloud.example.org"),
    ],
)
def test_a_nextcloud_may_be_named_as_a_browser_shows_it(typed: str, address: str) -> None:
    assert load(nextcloud_host=typed).nextcloud_host == address


def test_what_a_client_has_to_set_is_told_without_secrets_and_for_any_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys").write_text(new_key())
    monkeypatch.setenv("NEXTCLOUD_HOST", CLOUD)
    monkeypatch.setenv("READ_ONLY", "true")
    monkeypatch.setenv("DATA_DIR", "data")
    monkeypatch.setenv("NEXTCLOUD_USERNAME", "alice")
    monkeypatch.setenv("NEXTCLOUD_APP_PASSWORD", "s3cret")
    monkeypatch.setenv("TOKEN_ENCRYPTION_KEYS_FILE", "keys")

    settings = load()

    assert settings.carried == {
        "READ_ONLY": "true",
        "DATA_DIR": str(tmp_path / "data"),
        "NEXTCLOUD_USERNAME": "alice",
        "TOKEN_ENCRYPTION_KEYS_FILE": str(tmp_path / "keys"),
    }
    assert settings.not_carried == ["NEXTCLOUD_APP_PASSWORD"]


@pytest.mark.parametrize("found", ["tcp://10.96.12.7:8765", " udp://10.96.12.7:8765"])
def test_a_port_that_kubernetes_set_is_told_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """A Service named nextcloud-mcp makes every pod of its namespace start with this variable."""
    monkeypatch.setenv("NEXTCLOUD_MCP_PORT", found)

    sentence = refused(nextcloud_host=CLOUD)

    assert sentence.startswith(
        "Invalid NEXTCLOUD_MCP_PORT: it holds the address of a Service, which Kubernetes"
    )
    assert "enableServiceLinks: false" in sentence
    assert load(nextcloud_host=CLOUD, port=8765).port == 8765


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            {"nextcloud_mcp_server_url": f"{CLOUD}:443/mcp-server"},
            "has the origin of NEXTCLOUD_HOST: give this server",
        ),
        (
            {"nextcloud_host": "http://localhost:8765/nextcloud"},
            "NEXTCLOUD_HOST is where this server itself listens",
        ),
        (
            {"nextcloud_host": "http://127.0.0.1", "port": 80},
            r"listens \(127.0.0.1\): name Nextcloud's address",
        ),
        ({"nextcloud_host": "http://127.0.0.1:8765", "host": "0.0.0.0"}, "choose another --port"),
        ({"nextcloud_host": "http://10.0.0.7:8765", "host": "10.0.0.7"}, "choose another --port"),
        (
            {"nextcloud_public_url": "http://localhost:8765"},
            "NEXTCLOUD_PUBLIC_URL is where this server itself",
        ),
    ],
)
def test_the_address_of_a_personal_server_is_not_nextclouds(
    overrides: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        load(**({"nextcloud_host": CLOUD, "transport": "http"} | overrides))


@pytest.mark.parametrize(
    "overrides",
    [
        {"nextcloud_host": "http://127.0.0.1:8765", "transport": "stdio"},
        {"nextcloud_host": "http://127.0.0.1:8080"},
        {"nextcloud_host": "http://127.0.0.1:8765", "host": "10.0.0.7"},
        {"nextcloud_host": "http://127.0.0.1:8765", "sandbox": True},
        {"nextcloud_mcp_server_url": "https://mcp.example.org"},
    ],
)
def test_another_address_of_the_same_computer_is_fine(overrides: dict[str, object]) -> None:
    assert load(**({"nextcloud_host": CLOUD, "transport": "http"} | overrides)).mode == "personal"

"""What is derived from the fields, checked over all of them."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings import checks
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.settings.names import (
    ADDRESSES,
    BOTH_MODES,
    BUILTIN,
    FIELDS,
    FROM_FILE,
    MULTI_USER,
    NOT_CARRIED,
    OIDC,
    OPTIONS,
    PATHS,
    env_name,
    known_variables,
    read_text,
    unknown_variables,
)

pytestmark = pytest.mark.usefixtures("bare_environment")

#: What the names of secrets and addresses say about them; the exceptions are no secret, and no web address.
SECRET_NAME = re.compile(r"_(password|secret|keys|proxy)$")
ADDRESS_NAME = re.compile(r"_(url|host|issuer|endpoint)$")
NO_WEB_ADDRESS = {"metrics_host", "database_url"}
NO_SECRET = {"database_url", "nextcloud_oauth_client_id"}


def given(field: str, mode: str) -> Settings:
    """Return settings in which the operator set this field alone, to its default."""
    return Settings.model_construct(_fields_set={field}, mode=mode)


def without_effect(field: str, mode: str) -> list[str]:
    return [line for line in checks.looks_wrong(given(field, mode)) if "has no effect with MODE=" in line]


def test_every_field_has_a_variable_or_an_option_and_one_place_in_the_documentation() -> None:
    assert set(Settings.model_fields) == {*FIELDS, *OPTIONS}
    assert len(FIELDS) == len(set(FIELDS))
    assert FIELDS[-len(MULTI_USER) :] == (*BOTH_MODES, *OIDC, *BUILTIN)
    assert FIELDS[0] == "mode"


def test_every_variable_has_a_name_of_its_own_that_no_shell_sets() -> None:
    names = known_variables()

    assert len(names) == len(set(names))
    assert {"HOST", "PORT"} & set(names) == set()
    assert unknown_variables(dict.fromkeys(names, "x")) == []


def test_every_field_that_is_named_like_a_secret_is_one_and_none_is_shown() -> None:
    secret = {name for name in Settings.model_fields if SECRET_NAME.search(name)}
    hidden = SecretStr("hunter2")
    values: dict[str, Any] = {name: (hidden,) if name.endswith("keys") else hidden for name in secret}
    shown = Settings.model_construct(**values, database_url="postgresql://mcp:hunter2@db/mcp")

    assert secret | NO_SECRET == FROM_FILE
    assert "hunter2" not in repr(shown)


def test_every_field_that_is_named_like_an_address_is_checked_as_one() -> None:
    named = {name for name in Settings.model_fields if ADDRESS_NAME.search(name)} - NO_WEB_ADDRESS

    assert named == set(ADDRESSES)
    for field in ADDRESSES:
        values: dict[str, Any] = {field: "ftp://cloud.example.org"}
        with pytest.raises(ConfigurationError, match=f"^{env_name(field)} is not a web address"):
            checks.refuse(Settings.model_construct(**values))


def test_every_secret_is_read_from_its_file_and_no_other_field_is(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    for field in FIELDS:
        name = env_name(field)
        environ = {f"{name}_FILE": str(file)}

        assert read_text(environ, field) == ("hunter2" if field in FROM_FILE else None)
        assert (f"{name}_FILE" in known_variables()) == (field in FROM_FILE)
        if field in FROM_FILE:
            with pytest.raises(ConfigurationError, match="are both set"):
                read_text(environ | {name: "other"}, field)


@pytest.mark.parametrize(
    ("mode", "effective"),
    [("personal", ()), ("oidc", (*BOTH_MODES, *OIDC)), ("builtin", (*BOTH_MODES, *BUILTIN))],
)
def test_every_field_of_another_mode_is_a_warning(mode: str, effective: tuple[str, ...]) -> None:
    warned = {field for field in FIELDS if without_effect(field, mode)}

    assert warned == set(MULTI_USER) - set(effective)


def test_every_variable_but_secrets_and_options_is_carried_into_an_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in known_variables():
        monkeypatch.setenv(name, "here")
    settings = Settings.model_construct()

    files = {f"{env_name(field)}_FILE" for field in FROM_FILE - NOT_CARRIED}
    paths = {env_name(field) for field in PATHS - NOT_CARRIED}
    plain = {env_name(field) for field in FIELDS if field not in FROM_FILE | PATHS | NOT_CARRIED}
    assert settings.carried == {
        **dict.fromkeys(files | paths, str(tmp_path / "here")),
        **dict.fromkeys(plain, "here"),
    }
    assert set(settings.not_carried) == {env_name(field) for field in FROM_FILE - NOT_CARRIED}

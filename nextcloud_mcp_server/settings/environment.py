"""The operator's settings: one frozen object, read once from the environment; unsafe settings are refused.

No other module reads the environment. No `.env` is read from the working directory: a program that can write there
could then send a user's data elsewhere.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ValidationError, model_validator

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings import checks
from nextcloud_mcp_server.settings.faults import FaultCollection
from nextcloud_mcp_server.settings.fields import Fields
from nextcloud_mcp_server.settings.names import (
    FIELDS,
    FROM_FILE,
    NOT_CARRIED,
    PATHS,
    env_name,
    explain,
    known_variables,
    lost_limits,
    read_text,
    unknown_variables,
)

_Kind = TypeVar("_Kind", bound=Fields)


def _read(fields: Iterable[str]) -> dict[str, str]:
    """Read the fields that are set, each from its variable or from the file that `<NAME>_FILE` names.

    Raises:
        Faults: Some contradict each other, or name a file that cannot be read.
    """
    found, values = FaultCollection(), dict[str, str]()
    for field in fields:
        with found.gathering():
            text = read_text(os.environ, field)
            if text is not None:
                values[field] = text
    found.refuse()
    return values


class Settings(Fields):
    """The settings of a server. Create them with `load`."""

    @model_validator(mode="before")
    @classmethod
    def _serve_multi_user_over_http(cls, values: dict[str, Any]) -> dict[str, Any]:
        mode = str(values.get("mode", "")).strip().lower()
        return {"transport": "http"} | values if mode in {"oidc", "builtin"} else values

    @model_validator(mode="after")
    def _refuse_what_cannot_be_safe(self) -> Self:
        checks.refuse(self)
        return self

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator about settings that work but are probably not intended."""
        return (*checks.looks_wrong(self), *not_read())

    @property
    def secret_files(self) -> dict[str, Path]:
        """The files that secrets were read from, by the variables that name them."""
        names = (f"{env_name(field)}_FILE" for field in FIELDS if field in FROM_FILE)
        return {name: Path(file) for name in names if (file := os.environ.get(name))}

    @property
    def carried(self) -> dict[str, str]:
        """The variables that a client's configuration must set for the server that it starts, without secrets."""
        found: dict[str, str] = {}
        for field in FIELDS:
            name = f"{env_name(field)}_FILE" if field in FROM_FILE else env_name(field)
            text = os.environ.get(name)
            if text and field not in NOT_CARRIED:
                is_path = field in FROM_FILE | PATHS
                # The client starts the server in another folder.
                found[name] = str(Path(text).expanduser().absolute()) if is_path else text
        return found

    @property
    def not_carried(self) -> list[str]:
        """The variables of secrets that are set, and that a client's configuration should not contain."""
        names = [env_name(field) for field in FIELDS if field in FROM_FILE - NOT_CARRIED]
        return [name for name in names if os.environ.get(name)]

    @property
    def key_source(self) -> str:
        """The source of the sealing keys: a variable, or the key file in the data folder."""
        if not self.token_encryption_keys:
            return str(self.key_file)
        name = env_name("token_encryption_keys")
        return f"{name}_FILE" if f"{name}_FILE" in self.secret_files else name

    def open_data_dir(self) -> Path:
        """Create the data folder with mode 0700, and return it.

        Raises:
            ConfigurationError: It cannot be created.
        """
        path = self.data_path
        try:
            # `mkdir` applies the mode to the last folder only, and the sandbox's folder lies in the real one.
            for folder in (path.parent, path) if self.sandbox else (path,):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {path} cannot be made ({error.strerror}): set DATA_DIR to another folder."
            ) from error
        return path


class Draft(Fields):
    """Incomplete settings, for `setup nextcloud`. Create them with `load_draft`."""

    @model_validator(mode="after")
    def _refuse_wrong_addresses(self) -> Self:
        checks.refuse_draft(self)
        return self


def load(**overrides: object) -> Settings:
    """Read the settings; an argument that is not None overrides the environment.

    Raises:
        ConfigurationError: A setting is wrong or unsafe. The message names the variable and the fix, never a secret.
    """
    return _build(Settings, Fields.model_fields, overrides)


def load_draft(**overrides: object) -> Draft:
    """Read the settings of a server that cannot start yet.

    Raises:
        ConfigurationError: An address is missing or wrong.
    """
    # No secret and no file: `setup nextcloud --into` may still have to write the files.
    return _build(Draft, Fields.model_fields.keys() - FROM_FILE, overrides)


def _build(kind: type[_Kind], fields: Iterable[str], overrides: Mapping[str, object]) -> _Kind:
    """Create settings from the arguments, and the given fields from their variables or `<NAME>_FILE`."""
    given: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
    faults = FaultCollection(lost_limits(os.environ))
    try:
        given = _read(fields) | given
        built = kind(**given)
    except ValidationError as error:
        faults.add(explain(error))
        with faults.gathering():
            _look_further(
                kind, given, {str(problem["loc"][0]) for problem in error.errors() if problem["loc"]}
            )
        faults.refuse()
        raise
    except ConfigurationError as error:
        faults.add_error(error)
        faults.refuse()
        raise
    faults.refuse()
    return built


def _look_further(kind: type[Fields], given: Mapping[str, Any], wrong: Collection[str]) -> None:
    """Check what else is wrong, with the defaults in place of what cannot be read."""
    if "mode" not in wrong:
        kind(**{name: value for name, value in given.items() if name not in wrong} | _defaults(wrong))


def _defaults(fields: Iterable[str]) -> dict[str, Any]:
    known = Fields.model_fields
    return {name: known[name].get_default(call_default_factory=True) for name in fields if name in known}


def not_read() -> list[str]:
    """Return a warning for each variable of this process that looks like one of this server and is not read."""
    return unknown_variables(os.environ)


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a server that is started with these variables and no other settings."""
    return {name: text for name, text in os.environ.items() if name not in known_variables()} | {**variables}


def process_variables() -> Mapping[str, str]:
    """Return the variables of this process, to which the configuration of other servers may refer."""
    return os.environ

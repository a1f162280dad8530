"""The servers that a user has configured; a server with a fault is reported and left out, and the others work.

A project's entry replaces the user's entry of the same name as a whole. `configuration_files` finds them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from nextcloud_mcp_server.bridge import configuration_files as files
from nextcloud_mcp_server.bridge import trust
from nextcloud_mcp_server.bridge.configuration_files import Paths
from nextcloud_mcp_server.bridge.configuration_values import (
    expanded,
    first_fault,
    oauth_mode,
    server_values,
    suggestion,
)
from nextcloud_mcp_server.bridge.trust import Answer, Unapproved, never_asked
from nextcloud_mcp_server.logs import one_line

PREFIX: Final = "NEXTCLOUD_MCP_CLIENT_"
_ID: Final = re.compile(r"[a-z0-9_-]{1,64}")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TIMEOUT_SECONDS: Final = 30.0
#: A tool may wait for a user who consents in a browser.
_TOOL_TIMEOUT_SECONDS: Final = 300.0
_LONGEST_SECONDS: Final = 86_400.0
_TRUE: Final = frozenset({"1", "true", "yes"})

Seconds = Annotated[float, Field(gt=0, le=_LONGEST_SECONDS)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Permissions(_Frozen):
    """Which tools may be called, must be asked about, or may not be called; globs on names of tools."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class OAuthConfig(_Frozen):
    """What `oauth = "manual"` must know, and `oauth = "auto"` may be told."""

    client_id: str | None = None
    client_secret: SecretStr | None = None
    auth_url: str | None = None
    token_url: str | None = None
    scopes: tuple[str, ...] = ()
    redirect_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    metadata_url: str | None = None
    client_metadata_url: str | None = None
    issuer: str | None = None

    @model_validator(mode="after")
    def _refuse_other_schemes(self) -> Self:
        for name in ("auth_url", "token_url", "metadata_url", "client_metadata_url", "issuer"):
            if (url := getattr(self, name)) is not None:
                _check_url(url, f"oauth_config.{name}")
        return self


class Server(_Frozen):
    """One configured server. What it holds in `env`, `headers` and `oauth_config` may be secret."""

    id: str
    transport: Literal["stdio", "http", "sse"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    oauth: Annotated[Literal["off", "auto", "manual"], BeforeValidator(oauth_mode)] = "off"
    oauth_config: OAuthConfig = OAuthConfig()
    disabled: bool = False
    timeout_seconds: Seconds = _TIMEOUT_SECONDS
    tool_timeout_seconds: Seconds = _TOOL_TIMEOUT_SECONDS
    tools_enabled: bool = True
    resources_enabled: bool = True
    prompts_enabled: bool = True
    sampling_enabled: bool = False
    elicitation_enabled: bool = True
    permissions: Permissions = Permissions()

    @model_validator(mode="after")
    def _refuse_what_cannot_work(self) -> Self:
        if not _ID.fullmatch(self.id) or "__" in self.id:
            raise ValueError(
                "The name of a server has 1 to 64 characters of a-z, 0-9, - and _, and no __, which stands between it "
                "and the name of a tool"
            )
        if self.transport == "stdio":
            self._check_stdio()
        else:
            self._check_http()
        return self

    def _check_stdio(self) -> None:
        if not self.command.strip():
            raise ValueError('A server over stdio needs "command"; one with a "url" needs type = "http"')
        for name in ("url", "headers"):
            if getattr(self, name):
                raise ValueError(f'"{name}" is for type = "http"; this server is started as a command')
        if self.oauth != "off":
            raise ValueError("auth is only supported for HTTP servers")
        if any("\0" in text for text in (self.command, *self.args, *self.env, *self.env.values())):
            raise ValueError("No argument or variable can hold a NUL character")

    def _check_http(self) -> None:
        _check_url(self.url, "url")
        for name in ("command", "args", "env", "cwd"):
            if getattr(self, name):
                raise ValueError(f'"{name}" is for type = "stdio"; this server has a "url"')
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or not value.isprintable() or not value.isascii():
                raise ValueError(f'The header "{one_line(name)}" has characters that no header can have')
        if self.oauth == "manual":
            given = self.oauth_config
            for name in ("client_id", "auth_url", "token_url"):
                if not getattr(given, name):
                    raise ValueError(f'oauth = "manual" needs oauth_config.{name}')


class Options(_Frozen):
    """What holds for every server."""

    auto_connect: bool = True
    request_timeout_seconds: Seconds = _TIMEOUT_SECONDS
    expose_resources_tool: bool = True
    expose_prompts_tool: bool = True


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a file that was left out, and why."""

    path: Path
    sentence: str
    #: Empty if it is no server that was left out.
    server: str = ""

    def __str__(self) -> str:
        """Return one sentence with the place."""
        where = f'{self.path}, server "{one_line(self.server)}"' if self.server else str(self.path)
        return f"{where}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Configuration:
    """All servers, in the order of the files, the project's last."""

    servers: tuple[Server, ...] = ()
    faults: tuple[Fault, ...] = ()
    #: Of all files together: no file can take away what another one denies.
    permissions: Permissions = field(default_factory=Permissions)
    options: Options = field(default_factory=Options)
    #: The most tokens of a result that are passed on; None for all of them.
    max_output_tokens: int | None = None
    #: Whether a switch or variable turned all servers off.
    off: bool = False
    #: Files of the project that the user has not approved.
    unapproved: tuple[Unapproved, ...] = ()

    def server(self, name: str) -> Server | None:
        """Return the server of a name; None if there is none."""
        return next((server for server in self.servers if server.id == name), None)


@dataclass(slots=True)
class _Gathered:
    """What the files say together, while they are read."""

    servers: dict[str, Server] = field(default_factory=dict[str, Server])
    faults: list[Fault] = field(default_factory=list[Fault])
    permissions: list[Permissions] = field(default_factory=list[Permissions])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    unapproved: list[Unapproved] = field(default_factory=list[Unapproved])


def load(
    paths: Paths, environment: Mapping[str, str], *, off: bool = False, answer: Answer = never_asked
) -> Configuration:
    """Read the files below these folders, with the variables of this environment.

    What is wrong with one server, or with a whole file, is in `faults`; the rest is used. `answer` says whether the
    user has approved a project's file; of one that is not approved only what it asks for and denies is used.
    """
    if off or environment.get(f"{PREFIX}NO_MCP", "").strip().lower() in _TRUE:
        return Configuration(off=True)
    gathered = _Gathered()
    contents = _contents(paths, gathered)
    for number, content in enumerate(contents):
        if trust.is_of_project(content.path, paths) and trust.can_do_something(content):
            contents[number] = _approved(content, gathered, answer, paths.project)
        _read_shared(contents[number], gathered)
    options = _options(gathered.options, environment)
    defaults = {
        "timeout_seconds": _milliseconds(environment, "TIMEOUT") or options.request_timeout_seconds,
        "tool_timeout_seconds": _milliseconds(environment, "TOOL_TIMEOUT") or _TOOL_TIMEOUT_SECONDS,
    }
    unread = {one.path for one in gathered.unapproved}
    for content in contents:
        if content.path in unread:
            # The user's server of the same name is not what is meant here.
            for name, _ in content.servers:
                gathered.servers.pop(name, None)
        else:
            _read_servers(content, gathered, defaults, environment, paths.project)
    return Configuration(
        servers=tuple(gathered.servers.values()),
        faults=tuple(gathered.faults),
        permissions=Permissions(
            allow=tuple(glob for one in gathered.permissions for glob in one.allow),
            ask=tuple(glob for one in gathered.permissions for glob in one.ask),
            deny=tuple(glob for one in gathered.permissions for glob in one.deny),
        ),
        options=options,
        max_output_tokens=_whole(environment.get(f"{PREFIX}MAX_OUTPUT_TOKENS")),
        unapproved=tuple(gathered.unapproved),
    )


def _contents(paths: Paths, gathered: _Gathered) -> list[files.FileContent]:
    """Read each file; what cannot be read is a fault."""
    contents: list[files.FileContent] = []
    hidden = files.hidden_files(paths)
    for path in (*hidden, *files.found_files(paths)):
        try:
            content = files.read(path)
        except ValueError as error:
            gathered.faults.append(Fault(path, str(error).removeprefix(f"{path} ")))
            continue
        if path in hidden:
            # Another file takes the place of its servers, and cannot take away what it denies.
            content = files.FileContent(path, permissions=trust.limits(content))
        contents.append(content)
    return contents


def _approved(
    content: files.FileContent, gathered: _Gathered, answer: Answer, project: Path
) -> files.FileContent:
    """Return what of a project's file counts: all of it, or no more than what it asks for and denies."""
    said = answer(content.path, content.digest)
    if said:
        return content
    found = trust.unapproved(content, project, is_declined=said is False)
    gathered.unapproved.append(found)
    gathered.faults.append(Fault(content.path, found.sentence))
    return replace(content, permissions=trust.limits(content), options={})


def _read_shared(content: files.FileContent, gathered: _Gathered) -> None:
    """Take permissions and options, and report keys that look like a misspelt one of ours."""
    for key in content.others:
        if (meant := suggestion(key, content.known)) != ".":
            gathered.faults.append(Fault(content.path, f'Unknown key "{one_line(key)}"{meant}'))
    try:
        gathered.permissions.append(Permissions.model_validate(content.permissions))
    except ValidationError as error:
        # Read as nothing, a misspelt "deny" would allow.
        gathered.permissions.append(Permissions(deny=("*",)))
        sentence = (
            f"permissions: {first_fault(error, Permissions.model_fields)} Until then every call is denied."
        )
        gathered.faults.append(Fault(content.path, sentence))
    try:
        checked = Options.model_validate(content.options)
        gathered.options |= checked.model_dump(exclude_unset=True)
    except ValidationError as error:
        gathered.faults.append(Fault(content.path, f"mcp: {first_fault(error, Options.model_fields)}"))


def _read_servers(
    content: files.FileContent,
    gathered: _Gathered,
    defaults: Mapping[str, float],
    environment: Mapping[str, str],
    project: Path,
) -> None:
    """Take the servers of one file: each replaces one of the same name of an earlier file as a whole."""
    fields = Server.model_fields.keys() - {"id"}
    seen: set[str] = set()
    for name, table in content.servers:
        if name in seen:
            gathered.faults.append(Fault(content.path, f"duplicate MCP server id: {one_line(name)}.", name))
            continue
        seen.add(name)
        # A faulty entry must not leave the other file's server in its place.
        gathered.servers.pop(name, None)
        try:
            values = expanded(server_values(table, fields), environment, project)
            gathered.servers[name] = Server.model_validate({**defaults, **values, "id": name})
        except ValidationError as error:
            gathered.faults.append(Fault(content.path, first_fault(error, _NESTED), name))
        except ValueError as error:
            gathered.faults.append(Fault(content.path, str(error), name))


_NESTED: Final = [*Permissions.model_fields, *OAuthConfig.model_fields]


def _options(found: Mapping[str, Any], environment: Mapping[str, str]) -> Options:
    """Return the options of the files; variables override them, and one that cannot be read is ignored."""
    values = dict(found)
    if (seconds := _whole(environment.get(f"{PREFIX}REQUEST_TIMEOUT"))) is not None:
        values["request_timeout_seconds"] = min(float(seconds), _LONGEST_SECONDS)
    if (connect := environment.get(f"{PREFIX}AUTO_CONNECT")) is not None:
        values["auto_connect"] = connect.strip().lower() in _TRUE
    return Options.model_validate(values)


def _milliseconds(environment: Mapping[str, str], name: str) -> float | None:
    """Return a time limit in seconds: our own variable goes before the one that other clients read.

    Both are in milliseconds, so that a user can rename one into the other.
    """
    for variable in (f"{PREFIX}{name}", f"MCP_{name}"):
        if (whole := _whole(environment.get(variable))) is not None:
            return min(whole / 1000, _LONGEST_SECONDS)
    return None


def _whole(text: str | None) -> int | None:
    """Return a positive number; None for nothing and for what is none."""
    digits = (text or "").strip()
    return int(digits) or None if digits.isascii() and digits.isdecimal() and len(digits) <= 12 else None  # noqa: PLR2004 - no limit is longer


def _check_url(url: str, name: str) -> None:
    if not url:
        raise ValueError(f'A server over HTTP needs "{name}"')
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f'"{name}" is no address') from None
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        raise ValueError(f'"{name}" must be an address that begins with http:// or https:// and names a host')
    if parts.username is not None or parts.password is not None:
        raise ValueError(f'"{name}" must not contain a name or password: put them into "headers"')
    if not url.isprintable() or " " in url or not url.isascii():
        raise ValueError(f'"{name}" has characters that no address can have')

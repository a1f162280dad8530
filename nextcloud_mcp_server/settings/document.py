"""Prints `.env.example`, `docs/configuration.md`, `docs/tools.md` and the tools' schemas.

They are derived from the fields of the settings and from the tools. `make docs-check` fails if a committed file
differs.
"""

from pathlib import Path
from textwrap import wrap
from typing import cast

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.settings.names import (
    BOTH_MODES,
    BUILTIN,
    FIELDS,
    FROM_FILE,
    MULTI_USER,
    OIDC,
    OPTIONS,
    env_name,
)
from nextcloud_mcp_server.tools import schemas
from nextcloud_mcp_server.tools.registry import TOOLSETS, load
from nextcloud_mcp_server.tools.toolset import ToolSpec

_WIDTH = 96

_PAGE_HEAD = """# Configuration

This page is printed from the program (`make docs`). Options of a command win over variables; a variable that
is set to nothing counts as not set. Nothing is read from a `.env` file by itself: a program that can write to the
folder you start in could otherwise send your data elsewhere. Use your shell, your service manager or
`docker compose` (which reads `.env` beside `docker-compose.yml`) to set them.

A misspelt name is not silently ignored: the log, a refusal to start, `config` and `doctor` say what it probably meant.
If it would limit what can be done, such as `READONLY` in place of `READ_ONLY` or `MOD=builtin`, the server does not
start. A combination that cannot be safe is refused at start, with the variable's name and the fix. One error names all
that is wrong.

`NEXTCLOUD_HOST` may be the address of any page of your Nextcloud, as the browser shows it: `/login`, `/apps/…` and
`/index.php` are cut off.

## Variables

| variable | default | what it does |
|---|---|---|
"""

_PAGE_MULTI_USER = """
## For many users

These have no effect with `MODE=personal`. `NEXTCLOUD_MCP_SERVER_URL` and `TOKEN_ENCRYPTION_KEYS` are required then too.

| variable | default | what it does |
|---|---|---|
"""

_PAGE_OIDC = """
### With `MODE=oidc`

docs/quickstart-oidc.md goes through them in order, and docs/identity-providers.md says where the values come from.

| variable | default | what it does |
|---|---|---|
"""

_PAGE_BUILTIN = """
### With `MODE=builtin`

None is needed; docs/quickstart-builtin.md gets along without them.

| variable | default | what it does |
|---|---|---|
"""

_PAGE_SECRETS = """
## Secrets from files

Each secret can stay out of the environment: set the name with `_FILE` to the path of a file that holds it.
White space around it is cut off. Setting both forms is refused.

"""

_PAGE_OPTIONS = """
## Options only

These belong to `nextcloud-mcp-server serve` and have no variable.

| option | default | what it does |
|---|---|---|
"""

_EXAMPLE_PARTS = {
    BOTH_MODES[0]: "# ---- For many users: all below has no effect with MODE=personal. ----\n",
    OIDC[0]: "# ---- With MODE=oidc ----\n",
    BUILTIN[0]: "# ---- With MODE=builtin ----\n",
}

_EXAMPLE_HEAD = """# Settings of the Nextcloud MCP server, printed from the program (make docs): edit a copy.
# Copy to .env for docker compose, or export what you need. Every line is optional; most users set
# NEXTCLOUD_HOST alone, or nothing and use --nextcloud.
"""


_TOOLS_HEAD = """# Tools

This page is printed from the program (`make docs`). It is what a model reads about each tool, and
what the user must have allowed before it runs. `notes` and `files` are on by default;
`TOOLSETS` (or `--toolsets`) names the groups that are on instead, `EXCLUDE_TOOLS` leaves out single tools, and
`READ_ONLY=true` all that need a scope ending in `:write`. The connection tools are always on. What a user's
Nextcloud has no app for is not offered to them, as far as Nextcloud tells which apps it has.

A client over HTTP can ask for fewer with the headers `X-MCP-Toolsets: notes,calendar` and
`X-MCP-Readonly: true`; `config … --http --toolsets …` writes the first one.

An optional argument can be left out, be null, or be `""`: all three are the same to a tool, so a client that has to
send every argument can call each of them. In the arguments of the last table on this page, `""` says something.
"""

_HINTS_HEAD = """
## What the annotations promise

One rule for all tools:

- `readOnlyHint`: it changes nothing, and needs no permission that ends in `:write`.
- `destructiveHint`: it can change or delete what is there, and does not only add.
- `idempotentHint`: repeating the same call changes nothing more. So it is with all that reads, with all that
  deletes, with every change that needs the `etag` of what was read (the second call is refused, as there is another
  one), and with what sets a state or makes what must not be there yet. It is not set where each call adds something.
- `openWorldHint`: it reaches other users. Nextcloud notifies or invites them, or shows it to them: all that changes
  shares, events, Deck, Talk, the status or a collective, and comments on files.

A long tool has no hint of its own: where the client takes tasks, its calls may become tasks (docs/protocol.md).

| tool | title | hints |
|---|---|---|
"""

_EMPTY_HEAD = """
## Where an empty text says something

| tool | argument | what `""` does |
|---|---|---|
"""


def write(root: str) -> None:
    """Write all files below the repository's top folder."""
    for path, text in _documents(root).items():
        path.write_text(text, encoding="utf-8", newline="\n")


def check(root: str) -> None:
    """Compare all files with the committed ones.

    Raises:
        ConfigurationError: A file differs.
    """
    for path, text in _documents(root).items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise ConfigurationError(f"{path} is not what the program prints: run `make docs` and commit it.")


def _documents(root: str) -> dict[Path, str]:
    return {
        Path(root, ".env.example"): env_example(),
        Path(root, "docs", "configuration.md"): configuration_page(),
        Path(root, "docs", "tools.md"): tools_page(),
        Path(root, "nextcloud_mcp_server", "tools", schemas.FILE.name): schemas.page(
            {spec.name: spec.arguments.schema for name in TOOLSETS for spec in load(name).tools}
        ),
    }


def env_example() -> str:
    """Print `.env.example`: every variable, commented out, with its default."""
    parts = [_EXAMPLE_HEAD]
    for field in FIELDS:
        if field in _EXAMPLE_PARTS:
            parts.append(_EXAMPLE_PARTS[field])
        description = (Settings.model_fields[field].description or "").replace("`", "")
        lines = [f"# {line}" for line in wrap(description, _WIDTH)]
        default = _default(field)
        parts.append("\n".join([*lines, f"#{env_name(field)}={default}"]) + "\n")
        if field in FROM_FILE:
            parts[-1] += f"#{env_name(field)}_FILE=\n"
    return "\n".join(parts)


def configuration_page() -> str:
    """Print `docs/configuration.md`."""
    one = [field for field in FIELDS if field not in MULTI_USER]
    parts = [
        (_PAGE_HEAD, map(_row, one)),
        (_PAGE_MULTI_USER, map(_row, BOTH_MODES)),
        (_PAGE_OIDC, map(_row, OIDC)),
        (_PAGE_BUILTIN, map(_row, BUILTIN)),
        (_PAGE_SECRETS, (f"- `{env_name(field)}_FILE`\n" for field in FIELDS if field in FROM_FILE)),
        (_PAGE_OPTIONS, (_row(field) for field in Settings.model_fields if field in OPTIONS)),
    ]
    return "".join(head + "".join(rows) for head, rows in parts)


def tools_page() -> str:
    """Print `docs/tools.md`."""
    parts = [_TOOLS_HEAD]
    for name in TOOLSETS:
        parts.append(f"\n## {name}\n\n| tool | what it does | needs |\n|---|---|---|\n")
        for spec in load(name).tools:
            described = spec.description.replace("|", "\\|") + (
                " Only with `LOCAL_FOLDER`." if spec.local else ""
            )
            needs = ", ".join(f"`{scope}`" for scope in sorted(spec.scopes))
            parts.append(f"| `{spec.name}` | {described} | {needs} |\n")
    specs = [spec for name in TOOLSETS for spec in load(name).tools]
    parts.append(_HINTS_HEAD)
    parts.extend(f"| `{spec.name}` | {spec.title} | {_hints(spec)} |\n" for spec in specs)
    parts.append(_EMPTY_HEAD)
    for spec in specs:
        for argument, means in spec.arguments.meaningful_when_empty.items():
            parts.append(f"| `{spec.name}` | `{argument}` | {means} |\n")
    return "".join(parts)


def _hints(spec: ToolSpec) -> str:
    hints = {
        "read-only": spec.read_only,
        "destructive": spec.destructive,
        "idempotent": spec.idempotent and not spec.read_only,
        "open world": spec.open_world,
        "long": spec.long,
    }
    return ", ".join(name for name, holds in hints.items() if holds)


def _row(field: str) -> str:
    default = _default(field)
    shown = f"`{default}`" if default else ""
    return f"| `{env_name(field)}` | {shown} | {Settings.model_fields[field].description} |\n"


def _default(field: str) -> str:
    value: object = Settings.model_fields[field].default
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[str, ...]", value)))
    return str(value).lower() if isinstance(value, bool) else str(value)

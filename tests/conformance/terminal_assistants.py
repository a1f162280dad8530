"""Terminal assistants, each configured for this server and for a scripted model on loopback.

Their environment contains nothing of the tester's: no account, no settings, no key but a made-up one.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.conformance.client_runners import Server

#: The task of a run; the model follows its script whatever it says.
TASK = "List my notes."
KEY = "a-key-of-the-tests"


@dataclass(frozen=True, slots=True)
class Run:
    """The arguments of a command, and its environment besides a home folder."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AuthorizingClient:
    """One assistant; `set_up` writes settings for a server and a model address into a home folder."""

    name: str
    package: str
    version: str
    program: str
    set_up: Callable[[Path, Server, str], Run]


def surroundings(home: Path) -> dict[str, str]:
    """Return the environment of a run."""
    own = {"HOME": str(home), "USERPROFILE": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}
    return {"PATH": os.environ["PATH"], **own}


def _write(path: Path, data: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def _entry(server: Server, *, url: str = "url", headers: str = "headers") -> dict[str, Any]:
    """Return the entry that most of them read; for HTTP, with the assistant's names of the fields."""
    if server.url:
        return {url: server.url, headers: dict(server.headers)}
    return {"command": server.command[0], "args": list(server.command[1:]), "env": dict(server.env)}


def _claude_code(home: Path, server: Server, model: str) -> Run:
    config = _write(
        home / "mcp.json",
        {"mcpServers": {"nextcloud": {"type": "http" if server.url else "stdio", **_entry(server)}}},
    )
    # Without a terminal, as `-p` is, no user can be asked, so it answers each question with `cancel`.
    words = ("-p", TASK, "--mcp-config", str(config), "--strict-mcp-config", "--model", "claude-sonnet-4-5")
    return Run(
        (*words, "--allowedTools", "mcp__nextcloud__nc_notes_list_notes"),
        {
            "ANTHROPIC_BASE_URL": model,
            "ANTHROPIC_API_KEY": KEY,
            "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )


def _codex(home: Path, server: Server, model: str) -> Run:
    entry = _entry(server, headers="http_headers")
    written = "\n".join(f"{name} = {_toml(value)}" for name, value in entry.items())
    settings = f"""
model = "scripted"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.local]
name = "local"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[mcp_servers.nextcloud]
{written}
startup_timeout_sec = 60
# Without it, `exec` asks the model before the server has started, and offers it no tools.
required = true
"""
    _write(home / ".codex" / "config.toml", settings)
    return Run(("exec", "--skip-git-repo-check", TASK), {"SCRIPTED_KEY": KEY})


def _toml(value: object) -> str:
    """Return a string, a list or a table of strings; JSON is TOML except for a table's colons."""
    if isinstance(value, dict):
        pairs = cast("dict[str, str]", value).items()
        return "{ " + ", ".join(f"{json.dumps(name)} = {json.dumps(text)}" for name, text in pairs) + " }"
    return json.dumps(value)


def _gemini(home: Path, server: Server, model: str) -> Run:
    entry = {**_entry(server, url="httpUrl"), "trust": True, "timeout": 60_000}
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "mcpServers": {"nextcloud": entry},
    }
    _write(home / ".gemini" / "settings.json", settings)
    env = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": model, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return Run(("--yolo", "-m", "gemini-2.5-pro", "-p", TASK), env)


def _opencode(home: Path, server: Server, model: str) -> Run:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model}/v1", "apiKey": KEY},
        "models": {"scripted": {"name": "scripted"}},
    }
    entry: dict[str, Any] = {
        "type": "local",
        "command": list(server.command),
        "environment": dict(server.env),
    }
    if server.url:
        entry = {"type": "remote", "oauth": False, **_entry(server)}
    settings: dict[str, Any] = {
        "model": "local/scripted",
        "small_model": "local/scripted",
        "autoupdate": False,
        "share": "disabled",
        "provider": {"local": provider},
        "mcp": {"nextcloud": {**entry, "timeout": 60_000, "enabled": True}},
    }
    config = _write(home / "opencode.json", settings)
    env = {"OPENCODE_CONFIG": str(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return Run(("run", TASK), env)


ASSISTANTS = (
    AuthorizingClient("Claude Code -p", "@anthropic-ai/claude-code", "2.1.332", "claude", _claude_code),
    AuthorizingClient("Codex exec", "@openai/codex", "0.171.0", "codex", _codex),
    AuthorizingClient("Gemini CLI -p", "@google/gemini-cli", "0.61.0", "gemini", _gemini),
    AuthorizingClient("opencode run", "opencode-ai", "1.18.33", "opencode", _opencode),
)

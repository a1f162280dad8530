"""Lists the modules that a request passes: `python -m tests.call_path`.

Two requests are traced, each after the same one has run before: a call of `nc_notes_get_note`, and the callback of
Nextcloud's authorization request up to the stored pending grant. A module counts if one of its functions runs
between the request and its answer, in this process, where the server and the sandbox run. The sandbox and the demo's
client are left out.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import httpx2

import nextcloud_mcp_server
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.person import Person
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.integration.personal_app import link_in, open_personal_app

_PACKAGE = Path(nextcloud_mcp_server.__file__).parent
_LEFT_OUT = ("sandbox/", "demo/")
_NOTES: dict[str, Any] = {"name": "nc_notes_list_notes", "arguments": {}}


@contextmanager
def traced() -> Generator[Counter[str]]:
    """Count the calls of functions per module of the package while the block runs."""
    calls = Counter[str]()
    names: dict[str, str] = {}

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            if file not in names:
                path = Path(file)
                names[file] = path.relative_to(_PACKAGE).as_posix() if path.is_relative_to(_PACKAGE) else ""
            if names[file] and not names[file].startswith(_LEFT_OUT):
                calls[names[file]] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def note_call() -> Counter[str]:
    """Trace a warm call of a tool that reads one note, in single-user mode over HTTP."""
    with tempfile.TemporaryDirectory() as folder:
        opened = open_personal_app(Path(folder), Sandbox.demo())
        async with opened as app, app.person() as alice, app.raw() as client:
            asked = await client.request("tools/call", _NOTES)
            await alice.allow(link_in(asked["result"]["content"][0]["text"]))
            notes = (await client.request("tools/call", _NOTES))["result"]["structuredContent"]["notes"]
            read: dict[str, Any] = {"name": "nc_notes_get_note", "arguments": {"note_id": notes[0]["id"]}}
            await client.request("tools/call", read)
            with traced() as calls:
                answer = await client.request("tools/call", read)
    if answer["result"].get("isError"):
        raise RuntimeError(str(answer))
    return calls


async def callback() -> Counter[str]:
    """Trace a callback of Nextcloud's OAuth app in mode `oidc`, after another user's."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_oidc_app(Path(folder), hold_seconds=0) as app:
            await _callback(app, "bob")
            return await _callback(app, "alice")


async def _callback(app: OidcApp, name: str) -> Counter[str]:
    ends_at = f"{app.url}/oauth/callback/nextcloud"
    async with httpx2.AsyncClient(timeout=45) as browser, app.raw(app.token(name)) as client:
        asked = await client.request("tools/call", _NOTES)
        link = link_in(asked["result"]["content"][0]["text"])
        url = await Person(name, name, browser=browser).sign_in(link, until=ends_at)
        with traced() as calls:
            answer = await browser.get(url)
        if "/oauth/confirm" not in answer.headers.get("Location", ""):
            raise RuntimeError(f"{answer.status_code} {answer.headers}")
    return calls


def _report(title: str, calls: Counter[str]) -> str:
    modules = [f"  {count:>5}  {name}" for name, count in sorted(calls.items())]
    return "\n".join([f"{title}: {len(calls)} modules, {calls.total()} calls", *modules, ""])


async def main() -> None:
    """Print both lists."""
    sys.stdout.write(_report("a warm call of nc_notes_get_note", await note_call()))
    sys.stdout.write(_report("a callback up to the pending grant", await callback()))


if __name__ == "__main__":
    anyio.run(main)

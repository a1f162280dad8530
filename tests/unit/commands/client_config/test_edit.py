"""Realistic files of each client: our entry comes in, is replaced, and nothing else is touched."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.commands.client_config import jsonc
from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient
from nextcloud_mcp_server.commands.client_config.edit import NotEdited, edited
from nextcloud_mcp_server.commands.client_config.snippet import ServerAddress, ServerCommand, snippet

COMMAND = ServerCommand(
    "/home/al ice/bin/nextcloud-mcp-server",
    ("serve", "--nextcloud", "https://c.example.org"),
    {"READ_ONLY": "true"},
)
ADDRESS = ServerAddress("http://127.0.0.1:8765/mcp", SecretStr("s3cret"))
#: As each client, or its documentation, writes the file; most have a server of another maker in it, and comments.
FILES: dict[ChatClient, tuple[str, str]] = {
    ChatClient(path.stem): (path.suffix, path.read_bytes().decode())
    for path in sorted((Path(__file__).parent / "client_settings").iterdir())
}
SERVERS = {"started": COMMAND, "running": ADDRESS}
CASES = [
    (client, server)
    for client in FILES
    for server in SERVERS
    if (client, server) != (ChatClient.CLAUDE_DESKTOP, "running")
]


def parsed(kind: str, text: str) -> Any:  # noqa: ANN401 - of any shape
    plain = text.removeprefix("\ufeff")
    return tomllib.loads(plain) if kind == ".toml" else jsonc.read(plain).data


@pytest.mark.parametrize(("client", "server"), CASES)
def test_each_client_s_file_gets_the_entry_and_keeps_all_the_rest(client: ChatClient, server: str) -> None:
    kind, text = FILES[client]
    entry = snippet(client, SERVERS[server]).text

    new = edited(kind, text, entry)

    assert edited(kind, new, entry) == new
    # Every line that was there is there, comments included, but for a comma behind it.
    kept = iter(line.rstrip(",") for line in new.splitlines())
    if client not in {ChatClient.QWEN, ChatClient.LM_STUDIO, ChatClient.CURSOR}:
        assert all(any(line.rstrip(",") in other for other in kept) for line in text.splitlines())
    if kind != ".yaml":
        before, after, ours = parsed(kind, text), parsed(kind, new), parsed(kind, entry)
        ((group, entries),) = ours.items()
        assert after == {**before, group: {**before.get(group, {}), **entries}}
    assert new.startswith("\ufeff") == text.startswith("\ufeff")
    assert ("\r\n" in new) == ("\r\n" in text)
    assert new.count("\r\n") in (0, new.count("\n"))


@pytest.mark.parametrize(("client", "server"), CASES)
def test_an_entry_that_is_there_already_is_replaced(client: ChatClient, server: str) -> None:
    kind, text = FILES[client]
    entry = snippet(client, SERVERS[server]).text
    old = snippet(client, ServerCommand("/old/server", ("serve",), {"OLD": "1"})).text

    new = edited(kind, edited(kind, text, old), entry)

    assert "/old/server" not in new
    assert "OLD" not in new
    if kind == ".yaml":
        assert new == edited(kind, text, entry)
    else:
        assert parsed(kind, new) == parsed(kind, edited(kind, text, entry))


def test_there_is_a_file_for_each_client_that_has_one() -> None:
    assert set(FILES) == set(ChatClient) - {ChatClient.CLAUDE_CODE, ChatClient.OPEN_WEBUI}


@pytest.mark.parametrize("client", FILES)
def test_where_there_is_no_file_yet_the_entry_is_all_of_it(client: ChatClient) -> None:
    kind, entry = FILES[client][0], snippet(client, COMMAND).text

    new = edited(kind, "", entry)

    assert new.endswith("\n")
    assert new.strip() == entry.strip()


GOOSE = "extensions:\n  nextcloud:\n    type: stdio\n    cmd: x"


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("A: 1", "A: 1\nextensions:\n  nextcloud:\n    type: stdio\n    cmd: x\n"),
        ("extensions: {}\nB: 1\n", "extensions:\n  nextcloud:\n    type: stdio\n    cmd: x\nB: 1\n"),
        ("extensions:\nB: 1\n", "extensions:\n  nextcloud:\n    type: stdio\n    cmd: x\nB: 1\n"),
        (
            "---\nextensions: # servers\n    dev:\n        args:\n        - a\n\nB:\n- 1\n",
            (
                "---\nextensions: # servers\n    dev:\n        args:\n        - a\n"
                "    nextcloud:\n      type: stdio\n      cmd: x\n\nB:\n- 1\n"
            ),
        ),
        # What looks like a comment, an alias or an entry in a text is none, and a text is not cut.
        (
            "extensions:\n  dev:\n    text: |\n      a\n      # b\n      *c*\n      nextcloud: d\nB: it's \"e\n",
            (
                "extensions:\n  dev:\n    text: |\n      a\n      # b\n      *c*\n      nextcloud: d\n"
                "  nextcloud:\n    type: stdio\n    cmd: x\nB: it's \"e\n"
            ),
        ),
        (
            "extensions:\n  dev:\n    text: >-\n      # a\n    args: ['b, [', \"#\"] # c\n    d: 'it''s' # \"\n",
            (
                "extensions:\n  dev:\n    text: >-\n      # a\n    args: ['b, [', \"#\"] # c\n    d: 'it''s' # \"\n"
                "  nextcloud:\n    type: stdio\n    cmd: x\n"
            ),
        ),
        (
            (
                'extensions:\n  "nextcloud":\n    old: |\n      many\n\n      lines\n    args:\n    - b\n'
                "  # next\n  dev:\n    a: 1\n"
            ),
            "extensions:\n  nextcloud:\n    type: stdio\n    cmd: x\n  # next\n  dev:\n    a: 1\n",
        ),
    ],
)
def test_blocks_of_yaml_are_kept_as_they_are(text: str, new: str) -> None:
    assert edited(".yaml", text, GOOSE) == new


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (".json", '{"mcpServers": {', "line 1 is not JSON"),
        (".json", '{\n  "mcpServers": {\n    broken\n  }\n}', "line 3 is not JSON"),
        (".json", "[]", "the file is not an object"),
        (".json", '{"mcpServers": "none"}', '"mcpServers" is not an object'),
        (".json", '{"a": 1,\r\n"b": 2\n}', "line ends of two kinds"),
        (".jsonc", '{"mcpServers": {}, "mcpServers": {}}', "twice"),
        (".toml", "[mcp_servers", "it is not TOML"),
        (".toml", "a = 1\na = 2\n", "it is not TOML"),
        (".toml", 'mcp_servers = "none"\n', "mcp_servers is not written as tables"),
        (".toml", 'mcp_servers = { other = { command = "a" } }\n', "mcp_servers is not written as tables"),
        (".toml", 'mcp_servers.nextcloud.command = "a"\n', "mcp_servers is not written as tables"),
        (".toml", "[[mcp_servers]]\na = 1\n", "the change would not be the entry alone"),
        (".toml", 'a = """\n[mcp_servers.nextcloud]\nb = 1\n"""\n', "not"),
        (".yaml", "extensions: {dev: {a: 1}}\n", "extensions: is written in one line"),
        (".yaml", "extensions:\n\tdev: 1\n", "line 2 begins with a tab"),
        (".yaml", "extensions:\n- dev\n", "are not entries"),
        (".yaml", "extensions:\n  - dev\n", "are not entries"),
        (".yaml", "extensions:\n  dev: 1\nextensions:\n", "it names extensions: twice"),
        (".yaml", "extensions:\n  nextcloud: 1\n  nextcloud: 2\n", "it names nextcloud: twice"),
        (".yaml", "just a text\n", "line 1 is no key"),
        (".yaml", "A: 1\n---\nB: 1\n", "line 2 is no key"),
        (".yaml", '{"extensions": {}}\n', "line 1 is no key"),
        (".yaml", "- dev\n", "line 1 is no key"),
        (".yaml", "  A: 1\n", "line 1 is no key"),
        (".yaml", "A: 1\n\u00a0\n", "line 2 is no key"),
        (".yaml", "A: &a\n  b: 1\n", r"line 1 has an anchor \(&\) or an alias"),
        (".yaml", "extensions:\n  nextcloud: &n\n    a: 1\n  dev: *n\n", "line 2 has an anchor"),
        (".yaml", "extensions:\n  dev:\n    <<: *usual\n", r"line 3 has an anchor .* or an alias \(\*\)"),
        (".yaml", "A:\n- *b\n", "line 2 has an anchor"),
        (".yaml", "A: [b, *c]\n", "line 1 begins a list or mapping in brackets"),
        (".yaml", "A: [b,\nextensions]\n", "line 1 begins a list or mapping in brackets that does not end"),
        (".yaml", 'A: "b\nextensions: c"\n', "line 1 begins a quoted text that does not end in it"),
        (".yaml", "A:\n  - 'b\n    c'\n", "line 2 begins a quoted text"),
        (".yaml", "A: 1\rextensions: 2\n", "line 1 holds a line end that is none everywhere"),
        (".yaml", "A: 1\u2028B: 2\n", "line 1 holds a line end"),
        (".yaml", "A: |+\n  b\n\n", "line 1 begins a text"),
        (".yaml", "A: |\n  b", "its last line is part of a text"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused_with_the_reason(kind: str, text: str, reason: str) -> None:
    client = {".toml": ChatClient.CODEX, ".yaml": ChatClient.GOOSE}.get(kind, ChatClient.CURSOR)

    with pytest.raises(NotEdited, match=reason):
        edited(kind, text, snippet(client, COMMAND).text)


ENTRY = '[mcp_servers.nextcloud]\ncommand = "x"'


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("a = 1", f"a = 1\n\n{ENTRY}\n"),
        ("a = 1\n\n", f"a = 1\n\n{ENTRY}\n"),
        ('mcp_servers.other.command = "a"\n', f'mcp_servers.other.command = "a"\n\n{ENTRY}\n'),
        # The entry's own tables go, and what stands between and behind them stays.
        (
            '[mcp_servers.nextcloud] # old\nurl = "y"\n\n[mcp_servers.nextcloud.env]\nK = "v"\n\n# next\n[tui]\n',
            f"{ENTRY}\n\n\n# next\n[tui]\n",
        ),
        (
            '[mcp_servers."nextcloud"]\nurl = "y"\n[[profiles]]\na = 1\n[mcp_servers.nextcloud.env]\nK = "v"\n',
            f"{ENTRY}\n[[profiles]]\na = 1\n",
        ),
        (
            'text = """\n[mcp_servers.other]\n"""\nlist = [\n  ["a"],\n]\n',
            f'text = """\n[mcp_servers.other]\n"""\nlist = [\n  ["a"],\n]\n\n{ENTRY}\n',
        ),
    ],
)
def test_tables_of_toml_are_replaced_as_lines(text: str, new: str) -> None:
    assert edited(".toml", text, ENTRY) == new

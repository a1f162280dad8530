from pathlib import Path

import pytest

from nextcloud_mcp_server.commands.mcp_client.bridging import Wishes, found_servers
from nextcloud_mcp_server.errors import ConfigurationError, ServerUnknown

TWO = """
[server.one]
command = "one"
[server.two]
type = "http"
url = "https://two.example/mcp"
[server.off]
command = "off"
disabled = true
"""


@pytest.fixture
def wishes(tmp_path: Path) -> Wishes:
    file = tmp_path / "mcp.toml"
    file.write_text(TWO, encoding="utf-8")
    return Wishes(files=(file,))


def test_an_address_needs_no_configuration() -> None:
    _, servers = found_servers(["https://Mcp.Example.org:8443/mcp"], Wishes(headers=("X-One=a=b",)))

    assert [(one.id, one.url, one.headers, one.oauth) for one in servers] == [
        ("mcp-example-org", "https://Mcp.Example.org:8443/mcp", {"X-One": "a=b"}, "auto")
    ]


def test_a_token_of_the_user_takes_the_place_of_a_sign_in() -> None:
    _, servers = found_servers(["https://a.example/mcp"], Wishes(headers=("authorization=Bearer x",)))

    assert servers[0].oauth == "off"


def test_two_addresses_of_one_host_have_two_names() -> None:
    _, servers = found_servers(["https://a.example/1", "https://a.example/2"], Wishes(sign_in=False))

    assert [(one.id, one.oauth) for one in servers] == [("a-example", "off"), ("a-example-2", "off")]


def test_all_configured_servers_are_taken_if_none_is_named(wishes: Wishes) -> None:
    assert [one.id for one in found_servers([], wishes)[1]] == ["one", "two"]
    assert [one.id for one in found_servers(["two"], wishes)[1]] == ["two"]


def test_names_and_addresses_go_together(wishes: Wishes) -> None:
    assert [one.id for one in found_servers(["https://a.example/mcp", "two"], wishes)[1]] == [
        "two",
        "a-example",
    ]


def test_an_unknown_name_lists_those_that_are_there(wishes: Wishes) -> None:
    with pytest.raises(ServerUnknown, match="Configured: one, two"):
        found_servers(["three"], wishes)


@pytest.mark.parametrize(
    ("target", "header", "sentence"),
    [
        ("ftp://a.example/mcp", "A=b", "http"),
        ("https://u:secret@a.example/mcp", "A=b", "must not contain a name or password"),
        ("https://a.example/mcp", "secret", "--header wants NAME=VALUE"),
    ],
)
def test_a_wrong_address_or_header_is_one_sentence_without_secrets(
    target: str, header: str, sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as caught:
        found_servers([target], Wishes(headers=(header,)))

    assert "secret" not in str(caught.value)


def test_without_any_server_the_command_says_what_to_name(tmp_path: Path) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("", encoding="utf-8")

    with pytest.raises(ConfigurationError, match="name an address"):
        found_servers([], Wishes(files=(empty,)))

"""A cursor that a client forged is refused in one sentence, whatever it holds."""

import base64
import json
from typing import Any

import pytest

from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.registry import load
from tests.dav_fakes import call_with
from tests.every_tool import SPECS, tampered, usual

#: Every tool that takes a cursor, and the argument in which it does.
TAKERS = {name: "cursor" for name, spec in SPECS.items() if "cursor" in spec.schema["properties"]} | {
    "fetch": "id"
}
#: What a cursor has behind the fingerprint of its list: a number, and a name.
REFUSED = (
    "1.5",
    "true",
    "null",
    '"1"',
    "[1]",
    "9" * 400,
    f"-{'9' * 400}",
    "9" * 5_000,
    str(2**63),
    "1e400",
    "[" * 5_000,
)
NUMBERS = ("0", "1", "-1", str(2**63 - 1), str(-(2**63)))
NAMES = (
    "", "x", "²", "-1", "9" * 5_000, "1,²,9", "None", "null", "[]", "[1,2]", '[1,"x"]', '[[[]],"x"]', "[" * 5_000,
    '[1e999,""]',    f"[{'9' * 5_000},\"\"]", "\n", "\ud800", "\0", "note:../x", "file:", "note:" + "9" * 5_000,
)  # fmt: skip


def forged(number: str, name: str) -> str:
    written = f'["list", {number}, {json.dumps(name)}]'
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


class Lists:
    """Calls the tools with forged cursors, as one user."""

    def __init__(self, alice: Account, given: dict[str, dict[str, Any]]) -> None:
        self.alice = alice
        self.given = given

    async def outcome(self, tool: str, cursor: str) -> str:
        """Give the sentence of an error, or nothing; any other exception is what must not be."""
        given = {**self.given[tool], TAKERS[tool]: cursor}
        if tool == "nc_search_find_items":
            given["providers"] = ["files"]
        try:
            await call_with({}, load(SPECS[tool].toolset), self.alice, tool, **given)
        except NextcloudMcpError as error:
            return str(error)
        return ""


@pytest.fixture(scope="module")
async def demo() -> Lists:
    alice = tampered(Sandbox.demo())[1]
    return Lists(alice, await usual(alice))


@pytest.fixture
def lists(demo: Lists, monkeypatch: pytest.MonkeyPatch) -> Lists:
    """Let any cursor belong to any list: a client can compute the fingerprint."""

    def fingerprint(_: tuple[object, ...]) -> str:
        return "list"

    monkeypatch.setattr(pagination, "_fingerprint", fingerprint)
    return demo


@pytest.mark.parametrize("tool", TAKERS)
async def test_a_number_that_no_list_writes_is_refused(lists: Lists, tool: str) -> None:
    said = {number[:9]: await lists.outcome(tool, forged(number, "")) for number in REFUSED}

    other = {
        number: one
        for number, one in said.items()
        if "cursor does not belong" not in one and "no id" not in one
    }
    assert other == {}


@pytest.mark.parametrize("tool", TAKERS)
async def test_a_position_that_another_list_writes_is_no_error_of_this_server(
    lists: Lists, tool: str
) -> None:
    for number in NUMBERS:
        for name in NAMES:
            sentence = await lists.outcome(tool, forged(number, name))

            assert "validation error" not in sentence
            assert len(sentence.splitlines()) <= 1, sentence


@pytest.mark.parametrize("name", ["²", "x", "None", "9" * 5_000])
async def test_a_comment_that_is_no_number_is_refused(lists: Lists, name: str) -> None:
    assert "does not belong" in await lists.outcome("nc_files_list_comments", forged("1", name))


@pytest.mark.parametrize("name", ["", "[]", "[1,2]", '[[[]],"x"]', "[" * 5_000])
async def test_a_place_of_no_provider_is_refused(lists: Lists, name: str) -> None:
    assert "does not belong" in await lists.outcome("nc_search_find_items", forged("1", name))

"""A link stands on a line of its own, and a line of text follows it: in every message that has one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from nextcloud_mcp_server.auth.accounts import Disconnected
from nextcloud_mcp_server.errors import ElicitationRequired, Link, MissingScope
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.access import Access
from nextcloud_mcp_server.tools.connection import revoke_nextcloud_access
from nextcloud_mcp_server.tools.guard import account_link, declined
from tests.unit.protocol.test_wire import NEED, NOW, words

PACKAGE = Path(wire.__file__).parents[1]
ACCOUNT = "https://mcp.test/account"
#: What speaks to models. Elsewhere a link in a sentence is for the terminal or a page.
#: `auth/builtin` speaks to clients and browsers, never to a model.
SPEAKING = ("tools", "protocol", "auth", "resources")


class FakeServices:
    """As much of a server's core as a message needs."""

    account_url = ACCOUNT

    @property
    def accounts(self) -> "FakeServices":
        return self

    async def disconnect(self) -> Disconnected:
        return Disconnected(was_connected=True, at_nextcloud=False, account_url=ACCOUNT)


CORE = cast("Any", FakeServices())


def error_text(form: wire.Form) -> str:
    with pytest.raises(MCPError) as raised:
        wire.render(NEED, form, now=NOW)
    return raised.value.message


def closed() -> CallToolResult:
    need = ElicitationRequired("Please.", url=NEED.url, elicitation_id=NEED.elicitation_id)
    need.unanswered = "It was closed."
    return wire.text(need)


async def messages() -> dict[str, str]:
    """Write every kind of message that has a link."""
    refused, paused = declined(CORE), MissingScope("Paused.", link=Link(ACCOUNT, "Wait for the user."))
    revoked = cast("Any", await revoke_nextcloud_access.body(cast("Access", CORE)))
    return {
        "text": words(wire.render(NEED, wire.Form.TEXT, now=NOW)),
        "closed": words(closed()),
        "-32042": error_text(wire.Form.URL_ERROR),
        "waiting": words(wire.waiting(NEED, wire.Form.URL_ERROR)),
        "declined": answer.refusal(str(refused), refused.link),
        "paused": answer.refusal(str(paused), paused.link),
        "revoked": revoked.message,
    }


async def test_every_link_is_a_line_with_a_line_of_text_behind_it() -> None:
    for kind, message in (await messages()).items():
        lines = message.splitlines()
        [at] = [number for number, line in enumerate(lines) if "://" in line]
        assert re.fullmatch(r"https?://\S+", lines[at]), kind
        assert any(re.search("[a-z]+ [a-z]+", line) for line in lines[at + 1 :]), kind
        assert re.search("[.!]$", message), kind


@given(sentence=st.text(min_size=1), then=st.text(min_size=1))
def test_a_link_keeps_its_line_whatever_stands_around_it(sentence: str, then: str) -> None:
    assert f"\n\n{ACCOUNT}\n\n" in wire.with_link(sentence, Link(ACCOUNT, then))


@given(name=st.text())
def test_names_that_an_error_repeats_open_no_line_before_our_link(name: str) -> None:
    said = answer.refusal(f"No {name}.", Link(ACCOUNT, "Go on."))

    assert said.split("\n\n")[1:] == [ACCOUNT, "Go on."]


def test_without_such_a_page_an_ending_has_no_link() -> None:
    class Personal(FakeServices):
        account_url = ""

    assert account_link(cast("Any", Personal())) is None


def _sentences_with_a_url(path: Path) -> Iterator[str]:
    """Find formatted strings of several words that hold a value named `…url`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            values = [ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
            if any(" " in str(text) for text in texts) and any(
                value.lower().endswith("url") for value in values
            ):
                yield f"{path.name}: {ast.unparse(node)}"


def test_no_sentence_to_a_model_has_a_link_in_its_middle() -> None:
    modules = [
        path
        for layer in SPEAKING
        for path in (PACKAGE / layer).rglob("*.py")
        if path.parent.name != "builtin"
    ]

    assert [found for path in modules for found in _sentences_with_a_url(path)] == []


def test_only_one_module_sends_requests_to_clients() -> None:
    """A request to a client needs a deadline: `protocol/client_request.py` gives it one."""
    sending = re.compile(
        r"\.(?:elicit|elicit_url|elicit_form|create_message|list_roots|send_ping|send_request|send_raw_request)\("
    )
    found = [
        path.relative_to(PACKAGE).as_posix()
        for layer in (*SPEAKING, "web")
        for path in (PACKAGE / layer).rglob("*.py")
        if sending.search(path.read_text("utf-8"))
    ]

    assert found == ["protocol/client_request.py"]

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError
from mcp_types import SERVER_INFO_META_KEY, CallToolResult, ElicitResult, InputRequiredResult, TextContent

from nextcloud_mcp_server.errors import ElicitationRequired
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.wire import Dialect, Form
from tests.sdk_request import request

ID = "550e8400-e29b-41d4-a716-446655440000"
NEED = ElicitationRequired(
    "Please allow it.", url=f"https://mcp.test/p?elicitationId={ID}", elicitation_id=ID
)
URL_MODE: dict[str, Any] = {"elicitation": {"url": {}}}
FORM_MODE: dict[str, Any] = {"elicitation": {"form": {}}}
EMPTY_MODE: dict[str, Any] = {"elicitation": {}}
TRACK: dict[str, Any] = {"extensions": {wire.EXTENSION_ID: {}}}
IN_TEXT = (
    f"Please allow it. The user opens this link in a browser:\n\n{NEED.url}\n\n"
    "When that is done, call the tool again."
)
NOW = datetime(2025, 11, 29, tzinfo=UTC)


def words(result: CallToolResult | InputRequiredResult) -> str:
    assert isinstance(result, CallToolResult)
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.parametrize(
    ("version", "capabilities", "dialect", "form"),
    [
        ("2026-07-28", URL_MODE, "auto", Form.INPUT_REQUIRED),
        ("2026-07-28", URL_MODE | TRACK, "draft", Form.INPUT_REQUIRED),
        ("2026-07-28", FORM_MODE, "auto", Form.TEXT),
        ("2026-07-28", None, "2025-11-25", Form.TEXT),
        ("2025-11-25", URL_MODE, "auto", Form.URL_ERROR),
        ("2025-11-25", URL_MODE | TRACK, "auto", Form.DRAFT),
        ("2025-11-25", TRACK, "auto", Form.DRAFT),
        ("2025-11-25", FORM_MODE, "auto", Form.TEXT),
        ("2025-11-25", EMPTY_MODE, "auto", Form.TEXT),
        ("2025-11-25", {}, "auto", Form.TEXT),
        ("2025-06-18", None, "auto", Form.TEXT),
        ("2025-06-18", TRACK, "auto", Form.DRAFT),
        ("2025-11-25", {}, "draft", Form.DRAFT),
        ("2025-11-25", {}, "2025-11-25", Form.URL_ERROR),
        ("2025-11-25", URL_MODE, "text", Form.TEXT),
    ],
)
def test_version_and_capability_decide_the_form(
    version: str, capabilities: dict[str, Any] | None, dialect: Dialect, form: Form
) -> None:
    assert wire.form(request(version=version, capabilities=capabilities), dialect) is form


@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26", "2024-11-05"])
@pytest.mark.parametrize("dialect", ["auto", "2025-11-25"])
def test_a_version_without_url_mode_gets_text_whatever_the_client_declares(
    version: str, dialect: Dialect
) -> None:
    assert wire.form(request(version=version, capabilities=URL_MODE), dialect) is Form.TEXT


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (None, "An assistant"),
        ("Claude Code", "Claude Code"),
        ("x" * 99, "x" * 64),
        (" ", "An assistant"),
        ("\u3164", "<U+3164>"),
        ("Cl\u115faude\u202e", "Cl<U+115F>aude<U+202E>"),
    ],
)
def test_a_client_is_called_what_it_calls_itself_or_an_assistant(name: str | None, shown: str) -> None:
    assert wire.client_name(request(name=name, capabilities={})) == shown


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ({"name": "claude-code", "version": "2"}, "claude-code"),
        ({"name": "claude-code", "title": "Claude Code", "version": "2"}, "Claude Code"),
        ({"name": "a\u202eb\nc"}, "a<U+202E>b<U+000A>c"),
        ({"name": "x" * 100}, "x" * 64),
        ({"name": 7}, "An assistant"),
        ("odd", "An assistant"),
        (None, "An assistant"),
    ],
)
def test_a_client_has_its_name_already_while_it_initializes(info: object, shown: str) -> None:
    assert wire.client_name(request(method="initialize", params={"clientInfo": info})) == shown


def test_only_initialize_carries_the_name_of_a_client() -> None:
    ctx = request(method="tools/call", params={"clientInfo": {"name": "x"}})

    assert wire.client_name(ctx) == "An assistant"


@pytest.mark.parametrize(
    ("version", "session", "headers", "key"),
    [
        ("2025-11-25", "abc", None, "abc"),
        ("2025-11-25", None, None, "stdio"),
        ("2025-11-25", None, {}, None),
        ("2026-07-28", "abc", None, None),
    ],
)
def test_only_handshake_clients_have_a_session(
    version: str, session: str | None, headers: dict[str, str] | None, key: str | None
) -> None:
    assert wire.session_key(request(version=version, session=session, headers=headers)) == key


def test_a_retry_brings_back_id_round_and_answer() -> None:
    answer = {wire.INPUT_KEY: ElicitResult(action="accept")}

    assert wire.retry(answer, json.dumps({"e": ID, "r": 3})) == wire.Retry(ID, 3, "accept")
    assert wire.retry(None, json.dumps({"e": ID, "r": 3})) == wire.Retry(ID, 3, None)
    assert wire.retry(answer, None) is None


def test_a_retry_knows_when_its_question_went_out() -> None:
    asked = wire.render(NEED, Form.INPUT_REQUIRED, now=NOW)
    assert isinstance(asked, InputRequiredResult)

    brought = wire.retry({wire.INPUT_KEY: ElicitResult(action="decline")}, asked.request_state)

    assert brought == wire.Retry(ID, 1, "decline", NOW)


@given(seconds=st.floats(min_value=-3600, max_value=3600, allow_nan=False))
def test_only_a_decline_that_a_user_had_time_for_is_one(seconds: float) -> None:
    later = NOW + timedelta(seconds=seconds)

    declined = {
        action: wire.Retry(ID, 1, action, NOW).declined(later) for action in ("decline", "cancel", None)
    }

    assert declined == {"decline": (later - NOW).total_seconds() >= 2, "cancel": False, None: False}


def test_a_decline_of_a_question_of_an_earlier_release_counts() -> None:
    assert wire.Retry(ID, 1, "decline").declined(NOW)


@pytest.mark.parametrize(
    "state",
    [
        '{"e": "x", "r": 1, "t": "y"}',
        '{"e": "x", "r": 1, "t": 1e30}',
        "no json",
        "[]",
        "{}",
        '{"e": 1}',
        '"text"',
        '{"e": "x", "r": "y"}',
        "null",
    ],
)
def test_a_state_that_is_not_ours_is_no_retry(state: str) -> None:
    assert wire.retry(None, state) is None


def test_a_2026_client_gets_an_input_request_without_an_id() -> None:
    result = wire.render(NEED, Form.INPUT_REQUIRED, now=NOW)

    assert isinstance(result, InputRequiredResult)
    assert result.model_dump(by_alias=True, mode="json", exclude_none=True) == {
        "resultType": "input_required",
        "inputRequests": {
            "provision": {
                "method": "elicitation/create",
                "params": {"mode": "url", "message": "Please allow it.", "url": NEED.url},
            }
        },
        "requestState": json.dumps({"e": ID, "r": 1, "t": 1764374400000}, separators=(",", ":")),
    }


@pytest.mark.parametrize("tell", [partial(wire.render, now=NOW), wire.waiting], ids=["render", "waiting"])
def test_each_answer_counts_one_round_more(tell: Callable[..., object]) -> None:
    result = tell(NEED, Form.INPUT_REQUIRED, round_=3)

    assert isinstance(result, InputRequiredResult)
    retry = wire.retry(None, result.request_state)
    assert retry is not None
    assert (retry.elicitation_id, retry.round) == (ID, 4)


@pytest.mark.parametrize(
    ("form", "code", "message"),
    [
        (Form.DRAFT, -32000, "Nextcloud access provisioning required"),
        (Form.URL_ERROR, -32042, IN_TEXT),
    ],
)
def test_handshake_clients_get_an_error_with_the_elicitation_as_data(
    form: Form, code: int, message: str
) -> None:
    """N07: the id is always there."""
    with pytest.raises(MCPError) as told:
        wire.render(NEED, form, now=NOW)

    assert (told.value.code, told.value.message) == (code, message)
    assert told.value.data == {
        "elicitations": [{"mode": "url", "message": "Please allow it.", "url": NEED.url, "elicitationId": ID}]
    }


@pytest.mark.parametrize("form", [Form.TEXT, Form.URL_ERROR, Form.DRAFT])
def test_an_error_that_brought_no_answer_is_followed_by_text(form: Form) -> None:
    assert words(wire.waiting(NEED, form)) == IN_TEXT


def test_the_others_get_a_sentence_with_the_link() -> None:
    result = wire.render(NEED, Form.TEXT, now=NOW)

    assert not isinstance(result, InputRequiredResult)
    assert result.is_error
    assert words(result) == IN_TEXT


def test_the_text_says_first_why_the_question_was_not_answered() -> None:
    need = ElicitationRequired(str(NEED), url=NEED.url, elicitation_id=ID)
    need.unanswered = "It was closed."

    assert words(wire.text(need)) == f"It was closed. {IN_TEXT}"


def test_a_held_2026_client_gets_a_state_only_answer_and_text_before_it_gives_up() -> None:
    rounds = [wire.waiting(NEED, Form.INPUT_REQUIRED, round_=round_) for round_ in range(10)]

    state_only = [isinstance(result, InputRequiredResult) for result in rounds]
    assert state_only == [True] * 8 + [False] * 2
    assert all(result.input_requests is None for result in rounds if isinstance(result, InputRequiredResult))


NAMED = {"name": "nextcloud-mcp-server", "version": "1"}
SAYS_OF_ITSELF: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": "2025-11-25", "serverInfo": NAMED},
    "server/discover": {"_meta": {SERVER_INFO_META_KEY: NAMED}},
}


def test_what_the_server_can_do_is_said_in_both_handshakes() -> None:
    for method, says in SAYS_OF_ITSELF.items():
        advertised = wire.advertise(
            method, {**says, "capabilities": {"extensions": {"other": {}}, "tools": {}}}
        )

        assert advertised["capabilities"] == {
            "elicitation": {"url": {}},
            "extensions": {"other": {}, wire.EXTENSION_ID: {}},
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True},
        }
    assert wire.advertise("ping", {}) == {}


def test_the_server_has_an_icon_for_light_and_one_for_dark_in_both_handshakes() -> None:
    told = wire.advertise("initialize", SAYS_OF_ITSELF["initialize"])["serverInfo"]
    discovered = wire.advertise("server/discover", SAYS_OF_ITSELF["server/discover"])["_meta"]

    assert told == discovered[SERVER_INFO_META_KEY]
    assert [icon["theme"] for icon in told["icons"]] == ["light", "dark"]
    assert {**told, "icons": None} == {**NAMED, "icons": None}


def test_a_version_without_icons_is_sent_none() -> None:
    old = {**SAYS_OF_ITSELF["initialize"], "protocolVersion": "2025-06-18"}

    assert wire.advertise("initialize", old)["serverInfo"] == NAMED
    assert [wire.takes_icons(version) for version in (None, "2025-06-18", "2025-11-25", "2026-07-28")] == [
        False,
        False,
        True,
        True,
    ]

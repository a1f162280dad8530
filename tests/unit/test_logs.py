import io
import json
import logging
import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.errors import StorageUnavailable

logger = logging.getLogger("nextcloud_mcp_server.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(text: str, *arguments: object, **extra: object) -> dict[str, object]:
    stream = io.StringIO()
    logs.set_up("info", stream=stream)
    logger.info(text, *arguments, extra=extra)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


def test_a_line_away_from_a_terminal_is_json_with_time_level_and_origin() -> None:
    line = written("started on %s", "127.0.0.1", tools=24, ready=True, path=None)

    assert line["event"] == "started on 127.0.0.1"
    assert (line["level"], line["logger"]) == ("info", "nextcloud_mcp_server.test")
    assert (line["tools"], line["ready"], line["path"]) == (24, True, None)
    assert "timestamp" in line


def test_a_line_carries_the_id_of_its_request() -> None:
    token = logs.request_id.set("r-17")
    try:
        line = written("hello")
    finally:
        logs.request_id.reset(token)

    assert line["request_id"] == "r-17"


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Basic {0}",
        "{{'authorization': 'Bearer {0}'}}",
        "password={0}&user=alice",
        '{{"app_password": "{0}"}}',
        "poll token: {0}",
        "https://alice:{0}@cloud.example.org/",
        "https://cloud.example.org/index.php/login/v2/flow/{0}?x=1",
        "callback?state={0}&x=1",
        "callback?code={0}",
        "Cookie: {0}",
        "Cookie: theme=dark; nc_session={0}; lang=de",
        "Set-Cookie: __Host-flow={0}; Path=/; HttpOnly",
        "'set-cookie': '__Host-session={0}; Secure'",
        "kept __Host-session={0}; Secure",
        "code_verifier={0}&grant_type=authorization_code",
        '{{"refresh_token": "{0}", "id_token": "{0}"}}',
        "client_assertion={0}",
        "authorize?nonce={0}&prompt=none",
        "redirect_url=%2Foauth%2Fcallback%3Fcode%3D{0}%26state%3D{0}",
    ],
)
def test_secrets_in_a_text_are_hidden(text: str) -> None:
    canary = "c4n4ryQQ"

    line = written("%s", text.format(canary))

    assert canary not in json.dumps(line)
    assert "[hidden]" in str(line["event"])


@pytest.mark.parametrize("secret", ["Ab1de-Fg2ij-Kl3no-Pq4st-Uv5xy", "a" * 72, "Z9" * 64])
def test_what_looks_like_an_app_password_or_poll_token_is_hidden(secret: str) -> None:
    assert written(f"got {secret} back")["event"] == "got [hidden] back"


@pytest.mark.parametrize("name", ["code", "state"])
def test_a_code_or_state_in_json_is_hidden_and_a_status_is_not(name: str) -> None:
    line = written(f'{{"{name}": "c4n4ryQQc4n4ry"}} {{"code": 404, "state": "pending"}}')

    assert "c4n4ry" not in str(line["event"])
    assert '{"code": 404, "state": "pending"}' in str(line["event"])


@pytest.mark.parametrize(
    "token",
    [
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIi",
        "Zm9v-YmFy_QUJD4RUZHSElKS0xNTk9QUVJTVFVWV1hZWmE",
    ],
)
def test_what_looks_like_a_token_or_session_is_hidden(token: str) -> None:
    assert written(f"got {token} back")["event"] == "got [hidden] back"


@given(st.text("ABEJUXZabcdefy0189._-", min_size=1, max_size=40))
def test_a_word_is_written_as_the_search_for_secrets_leaves_it(word: str) -> None:
    assert written("called", tool=word)["tool"] == logs.redact(word)


def test_long_names_stay_readable() -> None:
    text = "see test_a_link_opened_by_somebody_else_is_refused_with_a_page in 3f2504e0-4f89-11d3-9a0c-0305e82c3301"

    assert written(text)["event"] == text


@pytest.mark.parametrize("name", ["code_verifier", "nonce", "client_assertion", "id_token", "cookie"])
def test_fields_of_a_sign_in_are_hidden(name: str) -> None:
    assert written("x", **{name: "abc"})[name] == "[hidden]"


def test_fields_with_secret_names_are_hidden_at_any_depth() -> None:
    answer = {"Authorization": "abc", "etag": "e1", "deep": {"secret": "s"}}

    line = written("x", poll_token="abc", answer=answer)

    assert line["poll_token"] == "[hidden]"
    assert line["answer"] == {"Authorization": "[hidden]", "etag": "e1", "deep": {"secret": "[hidden]"}}


def test_ordinary_words_stay_readable() -> None:
    text = "state: pending, status_code 404, etag 5f2b, /Notes/token list.md"

    assert written(text)["event"] == text


def test_a_name_with_line_breaks_cannot_pose_as_another_line() -> None:
    line = written("file %s", "a\nERROR: all lost\r\x1b[31m\u2028\u202e")

    assert line["event"] == "file a\\nERROR: all lost\\r\\x1b[31m\\u2028\\u202e"


def test_a_trace_is_one_json_line_and_holds_no_secret() -> None:
    stream = io.StringIO()
    logs.set_up("info", stream=stream)

    try:
        raise ValueError("password=c4n4ry")  # noqa: TRY301  # the trace is the point
    except ValueError:
        logger.exception("failed")

    (text,) = stream.getvalue().splitlines()
    assert "ValueError" in json.loads(text)["exception"]
    assert "c4n4ry" not in text


def test_what_was_raised_on_purpose_is_one_line_without_a_trace() -> None:
    stream = io.StringIO()
    logs.set_up("info", "text", stream=stream)

    logger.error("the %s failed", "outbox", exc_info=StorageUnavailable("PostgreSQL is away (100%)."))

    (line,) = stream.getvalue().splitlines()
    assert line.endswith("error   the outbox failed: PostgreSQL is away (100%).")


def test_a_terminal_gets_readable_lines_and_an_indented_trace() -> None:
    stream = Terminal()
    logs.set_up("info", stream=stream)

    try:
        raise ValueError("first\nsecond")  # noqa: TRY301  # the trace is the point
    except ValueError:
        logger.exception("failed")

    lines = stream.getvalue().splitlines()
    assert "failed" in lines[0]
    assert all(line.startswith("    | ") for line in lines[1:])


def test_the_operator_chooses_the_form_of_the_lines() -> None:
    piped, terminal = io.StringIO(), Terminal()
    logs.set_up("info", "text", stream=piped)
    logger.info("request", extra={"client": "Claude Code", "ms": 12, "note": "", "paused": None})
    logs.set_up("info", "json", stream=terminal)
    logger.info("request")

    pattern = r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ info    request  client="Claude Code"  ms=12  note=""  paused=null\n'
    assert re.fullmatch(pattern, piped.getvalue())
    assert json.loads(terminal.getvalue())["event"] == "request"


def test_a_line_of_a_library_is_named_for_a_reader() -> None:
    stream = io.StringIO()
    logs.set_up("info", "text", stream=stream)

    logging.getLogger("some.library").warning("odd")

    assert stream.getvalue().endswith("Z warning some.library: odd\n")


def test_libraries_are_heard_from_warnings_on_even_at_debug() -> None:
    stream = io.StringIO()
    logs.set_up("debug", stream=stream)

    logging.getLogger("httpx2").info("GET https://cloud.example.org/secret")
    logging.getLogger("mcp").debug("arguments of a call")
    logging.getLogger("some.library").warning("odd")
    logger.debug("ours")

    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["odd", "ours"]


def test_nothing_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("debug")

    logger.warning("hello")

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


def test_our_own_lines_are_reworded_and_those_of_libraries_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.set_up("info", reword=lambda text: text.replace("NEXTCLOUD_HOST", "--nextcloud"))

    logging.getLogger("nextcloud_mcp_server.test").warning("Check %s.", "NEXTCLOUD_HOST")
    logging.getLogger("library").warning("Check NEXTCLOUD_HOST.")

    first, second = capsys.readouterr().err.splitlines()
    assert "Check --nextcloud." in first
    assert "Check NEXTCLOUD_HOST." in second


#: Texts of which one pattern or another may begin to match at every place, and never does.
_HOSTILE = ("a.", "a", "A", "__Host-", "__Host-a", "cookie", "cookie: ", "eyJ-", "basic ", "token", "token ",
            "authorization: ", "code= ", "%3Fcode", "'code'", "a://", "://a:", "abcde-", "aB3-",
            "é", "\n", '"')  # fmt: skip


def _work(text: str) -> float:
    def once() -> float:
        start = process_time()
        logs.redact(text)
        return process_time() - start

    return min(once() for _ in range(3))


@pytest.mark.parametrize("piece", _HOSTILE)
def test_the_work_of_hiding_secrets_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    short, long = (piece * 2_000)[:2_000], (piece * 32_000)[:32_000]

    # Sixteen times the text: 16 if linear, 256 if quadratic. Below two milliseconds, the clock decides.
    assert _work(long) < 80 * max(_work(short), 0.002)


@pytest.mark.parametrize(
    "text",
    [
        "__Host-a__Host-flow={0}; x",
        "see svn+ssh://bob:{0}@host/x",
        "a.b.c.https://bob:{0}@host/",
        "_http://bob:{0}@h",
    ],
)
def test_secrets_behind_what_looks_like_their_beginning_are_hidden(text: str) -> None:
    assert "c4n4ryQQ" not in logs.redact(text.format("c4n4ryQQ"))


@pytest.mark.parametrize("space", [" ", "\u00a0", "\u2003", "\u3000"])
def test_a_text_with_any_space_has_quotes_so_that_it_cannot_pose_as_another_field(space: str) -> None:
    stream = io.StringIO()
    logs.set_up("info", "text", stream=stream)
    logger.info("request", extra={"client": f"a{space}{space}person=root"})

    assert f'client="a{space}{space}person=root"' in stream.getvalue()

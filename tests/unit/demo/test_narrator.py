import io
import re

import anyio

from nextcloud_mcp_server.demo.narrator import Narrator

ANSI = re.compile(r"\x1b\[[0-9;]*[mK]|\r")


def told(*, live: bool, width: int = 60) -> tuple[Narrator, io.StringIO]:
    out = io.StringIO()
    return Narrator(out, live=live, width=width), out


def test_plain_narration_is_numbered_and_free_of_control_characters() -> None:
    narrator, out = told(live=False)

    narrator.headline("The journey")
    narrator.step("It starts")
    narrator.say("A sentence.")
    narrator.item("One of several.")
    narrator.done("It is so.")

    assert out.getvalue() == (
        "The journey\n\n 1. It starts\n   A sentence.\n   • One of several.\n   ✓ It is so.\n"
    )


def test_at_a_terminal_the_same_words_come_in_colour() -> None:
    plain, plain_out = told(live=False)
    live, live_out = told(live=True)

    for narrator in (plain, live):
        narrator.step("It starts")
        narrator.done("It is so, and the sentence is long enough to need a second line at this width.")

    assert "\x1b[" in live_out.getvalue()
    assert ANSI.sub("", live_out.getvalue()) == plain_out.getvalue()


def test_sentences_are_wrapped_to_the_width() -> None:
    narrator, out = told(live=False, width=50)

    narrator.say("word " * 30)

    assert max(len(line) for line in out.getvalue().splitlines()) < 50


def test_a_message_is_shown_whole_and_unfolded_where_it_may_be_piped() -> None:
    narrator, out = told(live=False)

    narrator.wire({"url": "https://example.org/" + "a" * 100})

    assert f'   │   "url": "https://example.org/{"a" * 100}"\n' in out.getvalue()


def test_a_long_line_is_folded_at_a_terminal_and_nothing_is_lost() -> None:
    narrator, out = told(live=True)

    narrator.wire({"url": "a" * 150})

    lines = [ANSI.sub("", line) for line in out.getvalue().splitlines()]
    assert max(len(line) for line in lines) < 60
    assert "".join(lines).count("a") == 150


def test_a_link_stays_in_one_piece() -> None:
    narrator, out = told(live=True)
    url = "https://example.org/" + "a" * 100

    narrator.link(url)

    assert url in out.getvalue()


async def test_waiting_is_one_line_where_nothing_can_turn() -> None:
    narrator, out = told(live=False)

    async with narrator.waiting("The server starts"):
        pass

    assert out.getvalue() == "   The server starts …\n"


async def test_at_a_terminal_a_wheel_turns_below_what_is_told_and_goes_at_the_end() -> None:
    narrator, out = told(live=True)

    async with narrator.waiting("The server starts"):
        await anyio.wait_all_tasks_blocked()
        narrator.say("Meanwhile.")

    text = out.getvalue()
    assert "⠋" in text
    assert "\x1b[2K   Meanwhile.\n" in text
    assert text.endswith("\r\x1b[2K")

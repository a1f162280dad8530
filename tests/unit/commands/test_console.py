"""What a command prints while it waits, at a terminal and elsewhere."""

import pytest

from nextcloud_mcp_server.commands.console import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_count_in_a_pipe_is_printed_twice_a_minute_and_at_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    progress = Progress(monotonic=clock)
    for second in range(100):
        clock.now = second
        progress(f"Waiting, {600 - second} seconds left")
    progress.close()

    assert lines(capsys) == [f"Waiting, {left} seconds left" for left in (600, 570, 540, 510, 501)]


def test_another_sentence_is_printed_at_once_and_the_same_one_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress(monotonic=Clock())
    for text in ("Waiting, 9 left", "Waiting, 8 left", "Connected.", "Connected.", "Saved 1 of 2"):
        progress(text)
    progress.close()

    assert lines(capsys) == ["Waiting, 9 left", "Connected.", "Saved 1 of 2"]


def test_a_terminal_shows_each_count_on_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress(monotonic=Clock())
    progress("1 of 2")
    progress("2 of 2")
    progress.close()

    assert capsys.readouterr().err == "\r\x1b[2K1 of 2\r\x1b[2K2 of 2\n"

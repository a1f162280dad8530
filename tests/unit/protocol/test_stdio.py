import os

import pytest

from nextcloud_mcp_server.protocol import stdio


async def test_stdout_is_for_messages_alone_and_what_else_is_printed_goes_to_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with stdio.messages() as stdout:
        await stdout.write("first ✓\n")
        before_flushing, _ = capfd.readouterr()
        await stdout.flush()
        os.write(1, b"stray\n")
        await stdout.write("second\n")
    os.write(1, b"after\n")

    out, err = capfd.readouterr()
    assert before_flushing == "first ✓\n"
    assert out == "second\nafter\n"
    assert err == "stray\n"


async def test_stdout_is_released_after_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), stdio.messages():
        raise ZeroDivisionError
    os.write(1, b"after\n")

    assert capfd.readouterr() == ("after\n", "")

import sys

from nextcloud_mcp_server.server import thread_turns


def test_turns_of_threads_are_short_while_the_server_runs_and_as_before_afterwards() -> None:
    before = sys.getswitchinterval()

    with thread_turns.shortened():
        during = sys.getswitchinterval()

    assert during < 0.0002
    assert sys.getswitchinterval() == before

"""Switches off the tracing of lines, by which coverage is measured, in tests that reach no line that others do not.

A traced line takes two to five times as long, whichever code it is of, and pytest-cov's mark `no_cover` does not end
that. In a worker of xdist two more collectors wait, which coverage started with the process; one of them goes on
tracing when pytest-cov stops its own.
"""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

#: Besides the tests of the modules these are measured, by folder: they reach lines that the former do not.
_SERVERS: Final = {
    "integration": [
        "availability",
        "builtin_doctor",
        "builtin_operator",
        "commands",
        "connection_tools",
        "cut_off",
        "demo",
        "journey",
        "refusals",
        "remarks",
        "renewed_access",
        "resources",
        "six_results",
        "tool_list",
        "unanswered",
    ],
    "security": [
        "account_holdings",
        "at_rest_oauth",
        "backchannel_logout",
        "bad_luck",
        "builtin_endpoints",
        "builtin_tokens",
        "callback_logs",
        "code_beyond_limit",
        "code_in_other_browser",
        "document_isolation",
        "forged_cursors",
        "half_done",
        "hostile_documents",
        "linear_time",
        "local_folder",
        "login_flow_of_many",
        "logs",
        "one_access",
        "one_valid_token",
        "paths",
        "released_account",
        "sign_in",
        "slow_and_many",
        "subscriptions",
        "token_scopes",
        "tools",
        "transport",
        "user_binding",
        "user_binding_oidc",
    ],
}


def is_measured(test: Path) -> bool:
    """Tell whether coverage counts in the tests of this file."""
    folder, *_ = test.relative_to(Path(__file__).parent).parts
    return folder == "unit" or test.stem.removeprefix("test_") in _SERVERS.get(folder, ())


@contextmanager
def untraced() -> Generator[None]:
    """Trace neither this thread nor those that it starts, whatever traced them before."""
    here, in_threads = sys.gettrace(), threading.gettrace()
    _trace(None, None)
    try:
        yield
    finally:
        _trace(here, in_threads)


def _trace(here: Any, in_threads: Any) -> None:  # noqa: ANN401 - a function, or an object of coverage, or None
    sys.settrace(here)
    threading.settrace(in_threads)

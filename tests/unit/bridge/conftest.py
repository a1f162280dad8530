import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nextcloud_mcp_server.bridge.configuration import Server

PROGRAM = Path(__file__).parents[2] / "mcp_test_server.py"

MakeServer = Callable[..., Server]


@pytest.fixture
def stdio_server() -> MakeServer:
    """Make the configuration of the small server; its options are words such as `pages=2`."""

    def make(*options: str, **fields: object) -> Server:
        return Server.model_validate(
            {"id": "test", "command": sys.executable, "args": [str(PROGRAM), *options], **fields}
        )

    return make

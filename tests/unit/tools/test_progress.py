from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from mcp.server.mcpserver import Context

from nextcloud_mcp_server.tools.consent_links import NEUTRALISED
from nextcloud_mcp_server.tools.progress import Progress


@dataclass
class Received:
    reports: list[tuple[float, float | None, str | None]] = field(
        default_factory=list[tuple[float, float | None, str | None]]
    )

    async def report_progress(self, done: float, total: float | None, message: str | None) -> None:
        self.reports.append((done, total, message))


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        ("Downloading big.bin", "Downloading big.bin"),
        ("Downloading a\u202egpj.exe", "Downloading a<U+202E>gpj.exe"),
        ("Downloading idp.example?user_code=ABCD", f"Downloading {NEUTRALISED}"),
        (None, None),
    ],
)
async def test_a_name_in_a_progress_message_is_treated_as_in_a_result(
    message: str | None, sent: str | None
) -> None:
    received = Received()

    await Progress(cast("Context[Any, Any]", received)).report(1, 2, message)

    assert received.reports == [(1, 2, sent)]

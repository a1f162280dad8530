"""Measures what verifying a token adds to a call, once the issuer's keys are known."""

import time
from datetime import UTC, datetime

from nextcloud_mcp_server.auth.verifier import Verifier, VerifierConfig
from tests.issuer_fixtures import ISSUER, NOW, RESOURCE, IdentityProvider, Time, claims, signed

TURNS = 5
TIMES = 500


async def milliseconds() -> float:
    """Verify an RS256 token repeatedly; return the best of some rounds, in processor time."""
    verifier = Verifier(
        VerifierConfig(audience=RESOURCE),
        {ISSUER: IdentityProvider().key_set(Time())},
        clock=lambda: datetime.fromtimestamp(NOW, UTC),
    )
    token = signed(claims())
    await verifier.verify(token)
    turns: list[float] = []
    for _ in range(TURNS):
        began = time.process_time()
        for _ in range(TIMES):
            await verifier.verify(token)
        turns.append((time.process_time() - began) / TIMES * 1000)
    return min(turns)

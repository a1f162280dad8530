"""The connection to the database breaks during a commit that was done: what Nextcloud gave is stored once, and kept."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nextcloud_mcp_server.auth import patience
from nextcloud_mcp_server.errors import StorageUnavailable
from nextcloud_mcp_server.storage.grants import GrantRepository
from nextcloud_mcp_server.storage.pending_grants import PendingGrantRepository
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.consent_fixtures import ConsentSetup
from tests.oauth_fixtures import Office, Replica

HOUR = 3600.0


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the answer to a method's first commit be lost; with `done=False` the connection breaks before it."""
    monkeypatch.setattr(patience, "_FIRST_PAUSE_SECONDS", 0.0)

    def lose(repository: type, name: str, *, done: bool = True) -> None:
        method: Callable[..., Awaitable[Any]] = getattr(repository, name)
        left = [True]

        async def losing(*arguments: object, **named: object) -> object:
            if left and not done:
                left.clear()
                raise StorageUnavailable("The database is shutting down.")
            outcome = await method(*arguments, **named)
            if left:
                left.clear()
                raise StorageUnavailable("The connection was closed in the middle of operation.")
            return outcome

        monkeypatch.setattr(repository, name, losing)

    return lose


@pytest.mark.parametrize("done", [True, False])
async def test_refreshed_tokens_are_stored(
    office: Office, replica: Replica, lost: Callable[..., None], *, done: bool
) -> None:
    grant = await office.connect(replica)
    office.harness.clock.forward(HOUR)
    lost(GrantRepository, "store_refreshed", done=done)

    found = await replica.broker.fresh(grant)

    assert found is not None
    assert (found.version, found.alternate) == (2, None)
    assert office.opens(found)
    assert (office.refreshes(), office.families) == (1, 1)


@pytest.mark.parametrize("done", [True, False])
async def test_a_grant_is_stored(mapped: ConsentSetup, lost: Callable[..., None], *, done: bool) -> None:
    consent_request, alice = await mapped.ask(), await mapped.browser("alice", nextcloud="alice")
    url = await mapped.allow(consent_request, alice)
    lost(GrantRepository, "complete", done=done)

    await mapped.consent_service.finish_grant(mapped.provider.confirm(url, "alice"), alice.who, alice.token)

    assert await mapped.grant() is not None
    assert await mapped.state(consent_request) is ElicitationState.COMPLETE
    assert await mapped.given_back() == []


@pytest.mark.parametrize("done", [True, False])
async def test_a_pending_grant_is_stored(
    people: ConsentSetup, lost: Callable[..., None], *, done: bool
) -> None:
    consent_request, alice = await people.ask(), await people.browser("alice")
    url = await people.allow(consent_request, alice)
    lost(PendingGrantRepository, "hold", done=done)

    answer = await people.consent_service.finish_grant(
        people.provider.confirm(url, "al"), alice.who, alice.token
    )

    assert answer.pending_grant is not None
    assert await people.pending_grant(consent_request, alice) == answer.pending_grant
    assert await people.given_back() == []

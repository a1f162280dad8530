from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent import policy as module
from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.errors import (
    ElicitationRequired,
    ElicitationUnknown,
    MissingScope,
    Unreachable,
    WrongAccount,
)
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.auth_fixtures import NEXTCLOUD, READ, WRITE, Process, ProcessHost, page_url, together

STRANGER = personal_caller("https://elsewhere.test", "Claude Code")


async def state(process: Process, elicitation_id: str) -> ElicitationState:
    found = await process.database.elicitations.find(elicitation_id)
    assert found is not None
    return found.state


async def results(process: Process, harness: ProcessHost) -> list[str]:
    recent = await process.database.audit.recent(harness.caller.principal, 50)
    return [entry.result for entry in recent if entry.action == "consent"]


async def need(process: Process, harness: ProcessHost, scopes: frozenset[str] = READ) -> ElicitationRequired:
    grant = await process.grant(harness.caller)
    return await process.provisioning.ask(harness.caller, scopes, grant=grant)


async def test_asking_gives_a_link_to_our_page_and_asks_nextcloud_nothing(
    harness: ProcessHost, process: Process
) -> None:
    asked = await need(process, harness)

    assert asked.url == page_url(asked.elicitation_id)
    assert str(asked) == module.ASK
    assert await state(process, asked.elicitation_id) is ElicitationState.PENDING
    assert harness.network.asked == []


async def test_asking_again_gives_the_same_link_and_widens_it(harness: ProcessHost, process: Process) -> None:
    first = await need(process, harness)
    second = await need(process, harness, WRITE)
    consent_request = await process.view(first.elicitation_id)

    assert second.url == first.url
    assert consent_request is not None
    assert consent_request.needed == READ | WRITE


async def test_what_the_settings_rule_out_is_not_asked_for(harness: ProcessHost) -> None:
    process = await harness.process(bound=READ)

    with pytest.raises(MissingScope, match="notes:write"):
        await need(process, harness, READ | WRITE)


async def test_without_a_page_the_link_leads_straight_to_nextcloud_and_names_the_limits(
    harness: ProcessHost,
) -> None:
    process = await harness.process(bound=READ, direct=True)

    first, second = await need(process, harness), await need(process, harness)

    assert first.url.startswith(f"{NEXTCLOUD}/login/v2/flow/")
    assert second.url == first.url
    assert str(first) == f"{module.ASK} It will allow: notes:read."
    assert len(harness.network.to("/login/v2")) == 1


async def test_without_a_page_calls_that_come_together_share_one_link(harness: ProcessHost) -> None:
    one, other = await harness.process(direct=True), await harness.process(direct=True)
    urls: list[str] = []

    async def ask(process: Process) -> None:
        urls.append((await need(process, harness)).url)

    await together(*[partial(ask, process) for process in (one, other, one, other)])

    assert len(set(urls)) == 1


async def test_without_a_page_an_unreachable_nextcloud_is_said_and_tried_again(harness: ProcessHost) -> None:
    process = await harness.process(direct=True)
    harness.network.before = harness.network.cut
    with pytest.raises(Unreachable):
        await need(process, harness)

    harness.network.before = None
    asked = await need(process, harness)

    assert asked.url.startswith(f"{NEXTCLOUD}/login/v2/flow/")


async def test_a_page_that_moved_is_linked_to_where_it_is_now(harness: ProcessHost) -> None:
    async def never_gone(_: str) -> bool:
        return False

    one = await harness.process(pages=(lambda each: f"http://127.0.0.1:1/{each}", never_gone))
    other = await harness.process(pages=(lambda each: f"http://127.0.0.1:2/{each}", never_gone))

    first, second = await need(one, harness), await need(other, harness)

    assert first.elicitation_id == second.elicitation_id
    assert second.url == f"http://127.0.0.1:2/{second.elicitation_id}"
    stored = await one.database.elicitations.find(first.elicitation_id)
    assert stored is not None
    assert stored.url == second.url


async def test_a_page_is_asked_for_its_link_when_the_request_is_stored(harness: ProcessHost) -> None:
    linked: list[str] = []

    async def never_gone(_: str) -> bool:
        return False

    def link(elicitation_id: str) -> str:
        linked.append(elicitation_id)
        return f"http://127.0.0.1:1/{elicitation_id}"

    process = await harness.process(pages=(link, never_gone))

    for _ in range(2):
        asked = await need(process, harness)
        # A loopback page that looked before the request was stored took it for one that has ended.
        assert linked[-1] == asked.elicitation_id
        assert linked.count(asked.elicitation_id) > 1


async def test_a_client_whose_page_ended_with_its_process_goes_straight_to_nextcloud(
    harness: ProcessHost,
) -> None:
    looked_for: list[str] = []

    async def gone(url: str) -> bool:
        looked_for.append(url)
        return True

    process = await harness.process(bound=READ, pages=(lambda each: f"http://127.0.0.1:1/{each}", gone))
    first, second, third = [await need(process, harness) for _ in range(3)]

    assert first.url.startswith("http://127.0.0.1:1/")
    assert second.url == third.url
    assert second.url.startswith(f"{NEXTCLOUD}/login/v2/flow/")
    assert "It will allow: " in str(second)
    # The first has no page to look for yet; later the open one straight to Nextcloud is used again.
    assert set(looked_for) == {first.url}


async def test_a_user_whose_access_was_refused_is_asked_to_give_it_again(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    opened = await process.accounts.open(harness.caller, READ)
    await process.accounts.reject(harness.caller, opened)

    assert str(await need(process, harness)) == module.ASK_AGAIN


async def test_a_connected_user_is_asked_for_more(harness: ProcessHost, process: Process) -> None:
    await harness.connect(process)

    assert str(await need(process, harness, WRITE)) == module.ASK_MORE


UNKNOWN = "550e8400-e29b-41d4-a716-446655440000"


@pytest.mark.parametrize("elicitation_id", ["", "nonsense", UNKNOWN, UNKNOWN.upper()])
async def test_unknown_and_malformed_ids_lead_nowhere(
    harness: ProcessHost, process: Process, elicitation_id: str
) -> None:
    assert await process.provisioning.find(elicitation_id, harness.caller) is None
    assert await process.view(elicitation_id) is None
    assert await process.provisioning.finished([elicitation_id]) == [elicitation_id]
    with pytest.raises(ElicitationUnknown):
        await process.approve(elicitation_id, READ)
    with pytest.raises(ElicitationUnknown):
        await process.decline(elicitation_id)


@pytest.mark.parametrize("changes", [{"principal": STRANGER.principal}, {"client_id": "another app"}])
async def test_the_consent_request_of_another_user_or_another_app_looks_like_none(
    harness: ProcessHost, process: Process, changes: dict[str, Any]
) -> None:
    consent_request = await process.ask(harness.caller)
    stranger = replace(harness.caller, **changes)

    assert await process.provisioning.find(consent_request.id, stranger) is None
    assert await process.provisioning.find(consent_request.id, harness.caller) == consent_request


async def test_a_consent_request_of_another_nextclouds_server_is_not_continued_here(
    harness: ProcessHost, process: Process
) -> None:
    elsewhere = await harness.process(url="http://elsewhere.test")
    consent_request = await process.ask(harness.caller)

    assert await elsewhere.view(consent_request.id) is None
    with pytest.raises(ElicitationUnknown):
        await elsewhere.approve(consent_request.id, READ)
    assert await state(process, consent_request.id) is ElicitationState.PENDING
    assert harness.network.asked == []


async def test_a_consent_request_straight_to_nextcloud_has_no_page(
    harness: ProcessHost, process: Process
) -> None:
    direct = await harness.process(direct=True)
    consent_request = await direct.ask(harness.caller)

    assert await process.view(consent_request.id) is None
    with pytest.raises(ElicitationUnknown):
        await process.approve(consent_request.id, WRITE)
    assert await state(process, consent_request.id) is ElicitationState.PENDING


async def test_the_page_shows_what_is_asked_offered_and_granted(harness: ProcessHost) -> None:
    process = await harness.process(bound=READ | WRITE)
    await harness.connect(process)
    consent_request = await process.ask(harness.caller, WRITE)

    shown = await process.view(consent_request.id)

    assert shown is not None
    assert (shown.needed, shown.offered, shown.granted) == (WRITE, READ | WRITE, READ)
    assert (shown.client_name, shown.nextcloud_host) == ("Claude Code", "nextcloud.test")
    assert (shown.login_url, shown.account_name, shown.failure) == (None, None, None)
    assert shown.expires_at == harness.clock() + module.LIFETIME


async def test_the_page_shows_nothing_as_granted_that_the_settings_took_out_since(
    harness: ProcessHost,
) -> None:
    await harness.connect(await harness.process(bound=READ | WRITE), READ | WRITE)
    files = frozenset({"files:read"})
    narrower = await harness.process(bound=READ | files)
    consent_request = await narrower.ask(harness.caller, files)

    shown = await narrower.view(consent_request.id)

    assert shown is not None
    assert (shown.offered, shown.granted) == (READ | files, READ)


async def test_looking_at_the_page_changes_nothing(harness: ProcessHost, process: Process) -> None:
    consent_request = await process.ask(harness.caller)

    await process.view(consent_request.id)

    assert await state(process, consent_request.id) is ElicitationState.PENDING
    assert harness.network.asked == []


async def test_allowing_opens_the_consent_request_and_starts_one_at_nextcloud(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await process.ask(harness.caller)

    shown = await process.approve(consent_request.id, READ)

    assert shown.state is ElicitationState.OPENED
    assert shown.login_url is not None
    assert shown.login_url.get_secret_value().startswith(f"{NEXTCLOUD}/login/v2/flow/")


async def test_allowing_more_than_the_settings_offer_gives_what_they_offer(harness: ProcessHost) -> None:
    process = await harness.process(bound=READ)
    consent_request = await process.ask(harness.caller)
    await process.approve(consent_request.id, READ | WRITE)
    harness.confirm()

    await process.poller.run_once()

    grant = await process.grant(harness.caller)
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ


async def test_an_unreachable_nextcloud_leaves_the_consent_request_open_for_another_try(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await process.ask(harness.caller)
    harness.network.before = harness.network.cut
    with pytest.raises(Unreachable):
        await process.approve(consent_request.id, READ)

    harness.network.before = None
    shown = await process.approve(consent_request.id, READ)

    assert shown.login_url is not None


async def test_allowing_in_two_tabs_at_once_is_one_consent_request_and_one_grant(
    harness: ProcessHost, process: Process
) -> None:
    other = await harness.process()
    consent_request = await process.ask(harness.caller)

    await together(
        partial(process.approve, consent_request.id, READ),
        partial(other.approve, consent_request.id, READ),
        partial(process.approve, consent_request.id, READ),
    )
    flow = await process.database.login_flows.find(consent_request.id)
    assert flow is not None
    for index, started in enumerate(harness.sandbox.state.login_flows):
        if started.login_token in flow.login_url.get_secret_value():
            harness.confirm(flow=index)
    await together(process.poller.run_once, other.poller.run_once)

    assert await state(process, consent_request.id) is ElicitationState.COMPLETE
    assert await results(process, harness) == ["granted"]
    assert len(harness.app_passwords) == 1


async def test_a_user_that_goes_back_and_ticks_less_gives_less(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await process.ask(harness.caller)
    await process.approve(consent_request.id, READ | WRITE)
    await process.approve(consent_request.id, READ)
    harness.confirm()

    await process.poller.run_once()

    grant = await process.grant(harness.caller)
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ


async def test_a_connected_user_allows_more_without_nextcloud(harness: ProcessHost, process: Process) -> None:
    secret = await harness.connect(process)
    asked = len(harness.network.asked)
    consent_request = await process.ask(harness.caller, WRITE)

    shown = await process.approve(consent_request.id, WRITE)

    grant = await process.grant(harness.caller)
    assert shown.state is ElicitationState.COMPLETE
    assert shown.account_name == "Alice Example"
    assert len(harness.network.asked) == asked
    assert process.finished[-1] == consent_request.id
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ | WRITE
    assert grant.credential.secret == SecretStr(secret)


async def test_a_connected_user_that_allows_more_than_the_settings_offer_gives_what_they_offer(
    harness: ProcessHost, process: Process
) -> None:
    files = frozenset({"files:read"})
    await harness.connect(process)
    bounded = await harness.process(bound=READ | files)
    consent_request = await bounded.ask(harness.caller, files)

    await bounded.approve(consent_request.id, files | WRITE)

    grant = await process.grant(harness.caller)
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ | files


async def test_a_connected_user_that_allows_twice_at_once_is_granted_once(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    consent_request = await process.ask(harness.caller, WRITE)
    outcomes: list[str] = []

    async def approve() -> None:
        try:
            outcomes.append((await process.approve(consent_request.id, WRITE)).state)
        except ElicitationUnknown:
            outcomes.append("over")

    await together(approve, approve)

    assert "complete" in outcomes
    assert set(outcomes) <= {"complete", "over"}
    assert await results(process, harness) == ["granted", "granted"]


async def test_a_refused_access_is_not_enough_to_permit_more(harness: ProcessHost, process: Process) -> None:
    await harness.connect(process)
    await process.accounts.reject(harness.caller, await process.accounts.open(harness.caller, READ))
    consent_request = await process.ask(harness.caller, WRITE)

    shown = await process.approve(consent_request.id, WRITE)

    assert shown.state is ElicitationState.OPENED
    assert shown.login_url is not None


async def test_allowing_while_a_disconnect_runs_brings_nothing_back(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    consent_request = await process.ask(harness.caller, WRITE)

    await process.accounts.disconnect(harness.caller)

    with pytest.raises(ElicitationUnknown):
        await process.approve(consent_request.id, WRITE)
    assert await process.grant(harness.caller) is None


async def test_the_state_machine_itself_stores_no_more_than_the_settings_offer(
    harness: ProcessHost, process: Process
) -> None:
    files = frozenset({"files:read"})
    await harness.connect(process)
    bounded = await harness.process(bound=READ | files)
    consent_request = await bounded.ask(harness.caller, files)
    elicitation = await bounded.database.elicitations.find(consent_request.id)
    assert elicitation is not None

    # Past the service, which limits what a page sends.
    assert await bounded.provisioning.permit(elicitation, files | WRITE)

    grant = await process.grant(harness.caller)
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.scopes == READ | files


async def test_a_client_declines_what_is_over_in_vain(harness: ProcessHost, process: Process) -> None:
    consent_request = await process.ask(harness.caller)
    await process.decline(consent_request.id)

    # As a client's own form does, without the page's service.
    with pytest.raises(ElicitationUnknown):
        await process.provisioning.decline(consent_request.id)

    assert await state(process, consent_request.id) is ElicitationState.DECLINED
    assert process.finished == [consent_request.id]


async def test_declining_ends_the_consent_request_and_wakes_who_waits(
    harness: ProcessHost, process: Process
) -> None:
    consent_request = await process.ask(harness.caller)

    await process.decline(consent_request.id)

    assert await state(process, consent_request.id) is ElicitationState.DECLINED
    assert process.finished == [consent_request.id]
    assert await process.provisioning.finished([consent_request.id]) == [consent_request.id]
    assert await results(process, harness) == ["declined"]


@pytest.mark.parametrize("again", ["approve", "decline"])
async def test_what_is_over_stays_over(harness: ProcessHost, process: Process, again: str) -> None:
    consent_request = await process.ask(harness.caller)
    await process.decline(consent_request.id)

    with pytest.raises(ElicitationUnknown):
        await (
            process.approve(consent_request.id, READ)
            if again == "approve"
            else process.decline(consent_request.id)
        )
    assert await state(process, consent_request.id) is ElicitationState.DECLINED


async def test_a_declined_consent_request_makes_way_for_a_new_one(
    harness: ProcessHost, process: Process
) -> None:
    first = await process.ask(harness.caller)
    await process.decline(first.id)

    assert (await process.ask(harness.caller)).id != first.id


async def test_a_consent_request_is_open_as_long_as_the_settings_say(harness: ProcessHost) -> None:
    half_an_hour = timedelta(minutes=30)
    process = await harness.process(lifetime=half_an_hour)
    consent_request = await process.ask(harness.caller)
    harness.clock.forward(half_an_hour.total_seconds() - 1)

    shown = await process.view(consent_request.id)

    assert shown is not None
    assert (shown.state, shown.lifetime) == (ElicitationState.PENDING, half_an_hour)
    harness.clock.forward(1)
    assert await state(process, consent_request.id) is ElicitationState.EXPIRED


async def test_a_consent_request_expires_and_says_so(harness: ProcessHost, process: Process) -> None:
    consent_request = await process.ask(harness.caller)
    open_before = await process.provisioning.finished([consent_request.id])
    harness.clock.forward(module.LIFETIME.total_seconds())

    found = await process.provisioning.find(consent_request.id, harness.caller)
    await process.provisioning.expire()

    assert open_before == []
    assert found is not None
    assert found.state is ElicitationState.EXPIRED
    assert process.finished == [consent_request.id]
    with pytest.raises(ElicitationUnknown):
        await process.approve(consent_request.id, READ)


async def test_a_consent_request_whose_key_is_lost_counts_as_finished_and_blocks_no_other(
    harness: ProcessHost, process: Process
) -> None:
    lost = await process.ask(harness.caller)
    other = await harness.process(keys=KeyRing.parse([SecretStr(new_key())]))

    assert await other.provisioning.finished([lost.id]) == [lost.id]
    assert (await need(other, harness)).elicitation_id != lost.id


async def test_a_consent_request_that_vanishes_while_it_is_allowed_is_over(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    consent_request = await process.ask(harness.caller, WRITE)

    assert await process.consent_service.allow(consent_request.id, process.user, "", WRITE) is None
    harness.sql("DELETE FROM elicitations")

    with pytest.raises(ElicitationUnknown):
        await process.consent_service.view(consent_request.id, process.user)


async def test_a_single_user_server_has_no_sign_in(process: Process) -> None:
    with pytest.raises(ElicitationUnknown):
        await process.consent_service.begin_sign_in("account")


@pytest.mark.parametrize(("mapped", "permitted"), [("alice", True), (None, True), ("bob", False)])
async def test_more_is_permitted_on_the_account_alone_that_the_mapping_gives(
    harness: ProcessHost, process: Process, mapped: str | None, *, permitted: bool
) -> None:
    """The operator may have changed the mapping since the user connected."""
    await harness.connect(process)
    elicitation = await process.ask(harness.caller, WRITE)

    if permitted:
        assert await process.provisioning.permit(elicitation, WRITE, uid=mapped)
    else:
        with pytest.raises(WrongAccount, match="Disconnect first"):
            await process.provisioning.permit(elicitation, WRITE, uid=mapped)

    grant = await process.grant(harness.caller)
    assert grant is not None
    assert grant.permission is not None
    assert (grant.permission.scopes >= WRITE) is permitted

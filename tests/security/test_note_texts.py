"""Texts of notes that are kept in memory are never another user's, and go when the access goes."""

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.errors import CredentialRejected, Forbidden
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from tests.dav_fakes import call
from tests.unit.apps.notes.test_texts import ALICE, Served


async def test_what_one_person_searched_is_never_found_by_another() -> None:
    served = Served()
    await (
        served.account("alice")
        .client(NotesClient)
        .create(title="Mine", content="kingfisher", category="", favorite=False)
    )
    mine = await call(served.account("alice"), "nc_notes_search_notes", query="kingfisher")

    others = [
        await call(served.account("bob"), "nc_notes_search_notes", query="kingfisher") for _ in range(2)
    ]

    assert mine.total == 1
    assert [found.total for found in others] == [0, 0]


async def test_a_refused_credential_finds_nothing_of_what_is_kept() -> None:
    served = Served()
    await call(served.account("alice"), "nc_notes_search_notes", query="milk")
    stolen = served.nextcloud.account(BasicCredential("alice", SecretStr("guessed")), uid="alice")

    with pytest.raises(CredentialRejected):
        await call(stolen, "nc_notes_search_notes", query="milk")


async def test_what_is_kept_is_dropped_when_the_access_ends() -> None:
    served = Served()
    await call(served.account("alice"), "nc_notes_search_notes", query="milk")
    await call(served.account("bob"), "nc_notes_search_notes", query="milk")

    # A password that is none for apps cannot be ended, but it is not used any more either.
    with pytest.raises(Forbidden):
        await served.nextcloud.delete_app_password(ALICE)

    assert served.nextcloud.content_cache.people == ["bob"]


async def test_a_note_that_is_no_longer_shared_is_not_found_again() -> None:
    served = Served()
    files = served.sandbox.state.users["alice"].files
    files.put("/Notes/Shared.md", b"kingfisher")
    before = await call(served.account(), "nc_notes_search_notes", query="kingfisher")
    files.trash_file("/Notes/Shared.md")

    after = await call(served.account(), "nc_notes_search_notes", query="kingfisher")

    assert (before.total, after.total) == (1, 0)

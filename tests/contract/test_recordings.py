import pytest

from tests.contract import (
    account_table,
    collectives_table,
    contacts_table,
    deck_table,
    oauth_table,
    search_table,
    shares_table,
    webdav_table,
)
from tests.contract.account_table import ACCOUNTS
from tests.contract.bookmarks_table import BOOKMARKS
from tests.contract.calendar_table import CALENDARS
from tests.contract.collectives_table import COLLECTIVES
from tests.contract.compare import Comparison
from tests.contract.contacts_table import CONTACTS
from tests.contract.cookbook_table import COOKBOOK
from tests.contract.deck_table import DECK
from tests.contract.forms_table import FORMS
from tests.contract.newer_apps_table import NEWER_APPS, profiles_of
from tests.contract.notes_table import NOTES
from tests.contract.oauth_table import OAUTH
from tests.contract.recording import all_names, load
from tests.contract.replay import Session, Table
from tests.contract.search_table import UNIFIED_SEARCH
from tests.contract.server import Server
from tests.contract.shares_table import SHARES
from tests.contract.steps import clean, learn_names
from tests.contract.tables_table import TABLES
from tests.contract.tags_table import LABELS
from tests.contract.webdav_table import WEBDAV

TABLE: Table = {
    **WEBDAV, **LABELS, **UNIFIED_SEARCH, **SHARES, **NOTES, **ACCOUNTS, **OAUTH, **CONTACTS, **DECK,
    **CALENDARS, **TABLES, **COOKBOOK, **COLLECTIVES, **FORMS, **BOOKMARKS, **NEWER_APPS,
}  # fmt: skip
NOT_REPLAYED = {
    **webdav_table.NOT_REPLAYED,
    **account_table.NOT_REPLAYED,
    **oauth_table.NOT_REPLAYED,
    **search_table.NOT_REPLAYED,
    **shares_table.NOT_REPLAYED,
    **contacts_table.NOT_REPLAYED,
    **deck_table.NOT_REPLAYED,
    **collectives_table.NOT_REPLAYED,
}
RECORDED_AT = "http://nextcloud.test"

pytestmark = pytest.mark.anyio


def test_every_recording_is_replayed_or_has_a_reason_not_to_be() -> None:
    replayed, left_out = set(TABLE), set(NOT_REPLAYED)

    assert sorted(replayed | left_out) == all_names()
    assert replayed & left_out == set()
    assert all(NOT_REPLAYED.values())


@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name in sorted(TABLE) for version in profiles_of(name)]
)
async def test_the_answer_is_the_recorded_one(name: str, server: Server) -> None:
    case, recording = TABLE[name], load(name)
    if case.sandbox_only is not None and server.sandbox is None:
        pytest.skip(case.sandbox_only)
    if case.admin and "admin" not in server.passwords:
        pytest.skip("an administrator sets it up, who is not in NEXTCLOUD_TEST_USERS")
    session = Session(server, recording, person=case.person)
    session.bind(RECORDED_AT, server.base)
    await clean(server, name.partition("/")[0])
    for step in (learn_names, *case.steps):
        await step(session)

    response = await session.replay()

    differences = Comparison(
        recording,
        response,
        text=session.translate(recording.text),
        headers={key: session.translate(value) for key, value in recording.answer_headers.items()},
        loose=case.loose,
        ignore=case.ignore,
    ).differences()
    assert not differences, "\n".join(differences)

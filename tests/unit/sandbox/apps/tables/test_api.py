from collections.abc import Callable

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.tables.store import StoredColumn

BASE = "/index.php/apps/tables/api/1"


async def test_what_is_not_there_or_not_open_is_refused(connect: Callable[..., httpx2.AsyncClient]) -> None:
    sandbox = Sandbox.demo()
    alice, nobody = connect(sandbox, auth=("alice", "alice")), connect(sandbox)

    answers = [
        await alice.put(f"{BASE}/tables"),
        await nobody.get(f"{BASE}/tables"),
        await alice.get(f"{BASE}/rows/1"),
    ]

    assert [answer.status_code for answer in answers] == [405, 401, 404]


def test_a_value_that_does_not_fit_becomes_nothing_and_an_address_is_cut() -> None:
    def read(kind: str, subtype: str, value: object, **more: object) -> object:
        fields = {"type": kind, "subtype": subtype, "selectionOptions": [{"id": 1, "label": "A"}]}
        return StoredColumn(1, fields | more, "").parsed(value)

    assert read("selection", "", "A") is None
    assert read("number", "", "three") is None
    assert read("datetime", "date", "24.12.2026") is None
    assert read("text", "link", "no address") is None
    link = '{"title": "x", "value": "https://a.museum", "providerId": "url"}'
    assert read("text", "link", link, textAllowedPattern="files,url") == link
    assert read("text", "link", link, textAllowedPattern="files") is None
    assert read("text", "link", link) is None
    assert '"value": "https://a.mus"' in str(read("text", "link", "https://a.museum"))

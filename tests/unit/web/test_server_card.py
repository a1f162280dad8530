"""The Server Card and the catalogue, as the published schema and the extension's page on discovery want them."""

import httpx2
import pytest
from starlette.applications import Starlette

from nextcloud_mcp_server.server.mcp_server import NAME
from nextcloud_mcp_server.web.server_card import EARLIER_PATHS, ServerCard, card_routes
from tests.published_schemas import broken_rules_of_server_card

CARD = ServerCard("https://mcp.example.org/mcp", "cloud.example.org")
CARD_URL = "https://mcp.example.org/mcp/server-card"


def client() -> httpx2.AsyncClient:
    app = Starlette(routes=card_routes(CARD))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="https://mcp.example.org")


@pytest.mark.parametrize(
    ("mcp_url", "name"),
    [
        ("https://mcp.example.org/mcp", "org.example.mcp/nextcloud-mcp-server"),
        ("https://example.org/base/mcp", "org.example/nextcloud-mcp-server"),
        ("https://xn--mnchen-3ya.example:8443/mcp", "example.xn--mnchen-3ya/nextcloud-mcp-server"),
        ("http://127.0.0.1:8000/mcp", "1.0.0.127/nextcloud-mcp-server"),
        ("http://[::1]:8000/mcp", "--1/nextcloud-mcp-server"),
    ],
)
def test_the_card_is_valid_and_named_after_its_domain(mcp_url: str, name: str) -> None:
    document = ServerCard(mcp_url, "cloud.example.org").document

    assert broken_rules_of_server_card(document) == []
    assert document["name"] == name
    assert document["remotes"][0]["url"] == mcp_url
    assert "2026-07-28" in document["remotes"][0]["supportedProtocolVersions"]


def test_the_card_has_the_name_that_a_connected_client_reads() -> None:
    assert CARD.document["name"].endswith(f"/{NAME}")


def test_a_long_host_name_leaves_the_card_valid() -> None:
    assert (
        broken_rules_of_server_card(
            ServerCard("https://mcp.example.org/mcp", f"{'a' * 63}.{'b' * 63}.example.org").document
        )
        == []
    )


@pytest.mark.parametrize("field", ["$schema", "name", "version", "description"])
def test_the_schema_notices_what_is_missing(field: str) -> None:
    document = CARD.document
    del document[field]

    assert broken_rules_of_server_card(document) != []


def test_the_card_lists_no_tools_and_no_secrets() -> None:
    assert CARD.document.keys() == {"$schema", "name", "version", "title", "description", "remotes"}


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/mcp/server-card", "application/mcp-server-card+json"),
        ("/.well-known/ai-catalog.json", "application/ai-catalog+json"),
    ],
)
async def test_any_page_may_read_it_and_ask_whether_it_changed(path: str, media_type: str) -> None:
    async with client() as http:
        first = await http.get(path)
        etag = first.headers["ETag"]
        again = await http.get(path, headers={"If-None-Match": f'"other", W/{etag}'})
        changed = await http.get(path, headers={"If-None-Match": '"other"'})
        preflight = await http.options(path, headers={"Origin": "https://inspector.test"})

    assert first.headers["Content-Type"] == media_type
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", etag)
    assert (changed.status_code, changed.json()) == (200, first.json())
    assert preflight.status_code == 204
    for answer in (first, again, preflight):
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Access-Control-Allow-Methods"] == "GET"
        assert answer.headers["Access-Control-Allow-Headers"] == "Content-Type, If-None-Match"
        assert answer.headers["Access-Control-Expose-Headers"] == "ETag"
        assert answer.headers["Cache-Control"] == "public, max-age=3600"


async def test_the_catalogue_leads_to_the_card() -> None:
    async with client() as http:
        (entry,) = (await http.get("/.well-known/ai-catalog.json")).json()["entries"]
        card = await http.get(entry["url"])

    assert entry == {
        "identifier": "urn:air:mcp.example.org:mcp:nextcloud-mcp-server",
        "type": "application/mcp-server-card+json",
        "url": CARD_URL,
    }
    assert broken_rules_of_server_card(card.json()) == []


@pytest.mark.parametrize("path", EARLIER_PATHS)
async def test_where_earlier_drafts_look_leads_to_the_card(path: str) -> None:
    async with client() as http:
        moved = await http.get(path)

    assert (moved.status_code, moved.headers["Location"]) == (308, CARD_URL)
    assert moved.headers["Access-Control-Allow-Origin"] == "*"

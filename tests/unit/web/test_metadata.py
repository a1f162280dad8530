import httpx2
import pytest
from starlette.applications import Starlette

from nextcloud_mcp_server.web.metadata import WELL_KNOWN, Resource, metadata_routes

RESOURCE = Resource("https://mcp.test/mcp", ("https://id.test",), ("notes:read", "notes:write"))


def client(resource: Resource = RESOURCE) -> httpx2.AsyncClient:
    app = Starlette(routes=metadata_routes(resource))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="https://mcp.test")


@pytest.mark.parametrize("path", [WELL_KNOWN, f"{WELL_KNOWN}/mcp"])
async def test_the_metadata_is_behind_the_path_and_at_the_root(path: str) -> None:
    async with client() as http:
        answer = await http.get(path)

    assert answer.json() == {
        "resource": "https://mcp.test/mcp",
        "authorization_servers": ["https://id.test"],
        "scopes_supported": ["notes:read", "notes:write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Nextcloud",
    }
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "WWW-Authenticate" in answer.headers["Access-Control-Expose-Headers"]


@pytest.mark.parametrize("path", [WELL_KNOWN, f"{WELL_KNOWN}/mcp"])
async def test_a_browser_may_ask_before_it_reads(path: str) -> None:
    async with client() as http:
        answer = await http.options(path, headers={"Origin": "https://inspector.test"})

    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Headers"] == "Authorization, *"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET"


@pytest.mark.parametrize(
    ("url", "metadata"),
    [
        ("https://mcp.test/mcp", "https://mcp.test/.well-known/oauth-protected-resource/mcp"),
        ("https://mcp.test:8443/a/mcp", "https://mcp.test:8443/.well-known/oauth-protected-resource/a/mcp"),
    ],
)
def test_the_metadata_url_puts_the_well_known_part_before_the_path(url: str, metadata: str) -> None:
    assert Resource(url, (), ()).metadata_url == metadata

from pathlib import Path

import pytest

from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from tests.auth_fixtures import NEXTCLOUD

SITE = PublicUrls("http://127.0.0.1:8765", "http://127.0.0.1:8765")


def configured(folder: Path, **overrides: object) -> Settings:
    return environment.load(
        **({"nextcloud_host": NEXTCLOUD, "data_dir": folder, "transport": "http"} | overrides)
    )


@pytest.mark.parametrize(
    ("host", "public_url", "site"),
    [
        ("127.0.0.1", None, PublicUrls("http://127.0.0.1:8765", "http://127.0.0.1:8765")),
        ("0.0.0.0", None, PublicUrls("http://127.0.0.1:8765", "http://127.0.0.1:8765")),
        ("::", None, PublicUrls("http://[::1]:8765", "http://[::1]:8765")),
        ("::1", None, PublicUrls("http://[::1]:8765", "http://[::1]:8765")),
        (
            "127.0.0.1",
            "https://mcp.example.org/",
            PublicUrls("http://127.0.0.1:8765", "https://mcp.example.org"),
        ),
    ],
)
def test_a_site_is_reached_where_it_listens_or_where_the_operator_says(
    tmp_path: Path, host: str, public_url: str | None, site: PublicUrls
) -> None:
    assert PublicUrls.of(configured(tmp_path, nextcloud_mcp_server_url=public_url), host, 8765) == site


def test_a_site_answers_to_its_own_names_alone() -> None:
    site = PublicUrls("http://127.0.0.1:8765", "https://mcp.example.org")

    assert site.names() == {"127.0.0.1:8765", "localhost:8765", "[::1]:8765", "mcp.example.org"}
    assert "https://mcp.example.org" in site.origins()
    assert "http://localhost:8765" in site.origins()
    assert all("evil" not in origin for origin in site.origins())


def test_a_page_is_named_by_its_id_and_grants_nothing_else() -> None:
    assert SITE.page_url("abc") == "http://127.0.0.1:8765/oauth/provision?elicitationId=abc"

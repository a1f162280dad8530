import httpx2
import pytest

from nextcloud_mcp_server.web.pages import Name, in_order
from tests.single_user_pages import SingleUserPages


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Claude Code", "Claude Code"),
        ("  two\n\tlines\u2028more ", "two lines more"),
        ("a\u202egpj.live\u200b", "agpj.live"),
        ("nul\x00 and bell\x07", "nul and bell"),
        ("a\ue000private\u0378b", "aprivateb"),
        ("Größe 👍🏽", "Größe 👍🏽"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 63 + "…"),
        ("\u200b", ""),
        # Marks on top of each other cover the lines around; words have at most four on a letter.
        ("A\u0334" + "\u0301" * 60 + "b", "A\u0334\u0301\u0301\u0301b"),
        ("ש\u05bc\u05c1\u05b8\u0591ל\u05d5ם", "ש\u05bc\u05c1\u05b8\u0591ל\u05d5ם"),
    ],
)
def test_a_name_is_one_short_line_of_visible_characters(given: str, shown: str) -> None:
    assert Name.of(given).plain == shown


def test_a_long_server_name_may_break_after_its_dots() -> None:
    assert Name.of_host("cloud.example.org").__html__() == "<bdi>cloud.example.org</bdi>"
    assert (
        Name.of_host(f"cloud.<b>.{'x' * 20}").__html__() == f"<bdi>cloud.<wbr>&lt;b&gt;.<wbr>{'x' * 20}</bdi>"
    )


def test_a_server_name_that_is_too_long_keeps_its_end() -> None:
    """Whoever owns `evil.example` also chooses what stands before it."""
    name = f"claude.ai.{'x' * 60}.evil.example"

    assert Name.of_host(name).plain == f"…{name[-63:]}"
    assert Name.of_host(name[-64:]).plain == name[-64:]


def test_permissions_stand_in_the_order_of_the_one_list() -> None:
    assert in_order({"files:write", "notes:read", "unknown"}) == ["notes:read", "files:write"]


async def test_an_app_without_a_name_is_an_assistant(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    response = await browser.get(f"/oauth/provision?elicitationId={await consent.open(client_name='')}")

    assert "<strong>An assistant</strong> asks for access" in response.text
    assert "is the name given by the app" not in response.text


async def test_a_german_browser_gets_german_pages(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    url = f"/oauth/provision?elicitationId={await consent.open()}"

    response = await browser.get(url, headers={"Accept-Language": "de-DE,de;q=0.9"})

    assert '<html lang="de">' in response.text
    assert response.headers["content-language"] == "de"
    assert "Sie öffnen und darin suchen." in response.text

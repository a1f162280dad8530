# ruff: noqa: RUF001 - letters that look like others are what is tried
import pytest

from nextcloud_mcp_server.auth import look_alikes
from nextcloud_mcp_server.auth.client_identity import identity
from nextcloud_mcp_server.auth.consent.views import ClientIdentity
from nextcloud_mcp_server.auth.known_clients import imitated
from tests.authorization_pages import CURSOR, LOOPBACK, client_of


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Claude", "claude.ai"),
        ("Claude Code", "platform.claude.com"),
        ("Cursor", "cursor:"),
        ("VS Code", "vscode.dev"),
        ("GEMINI", "google.com"),
        # Any program of a computer answers there, so an honest name says nothing either way.
        *(("Claude Code (nextcloud)", None), ("Codex", None), ("Visual Studio Code", None)),
        *(
            ("Notes of mine", "app.example.org"),
            ("", "app.example.org"),
            ("Клод", None),
            ("会议", "x.example"),
        ),
    ],
)
def test_a_name_from_its_own_host_imitates_no_client(name: str, place: str | None) -> None:
    assert imitated(name, place) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *(
            ("Claude", "Claude"),
            ("claude desktop", "Claude"),
            ("My ChatGPT", "ChatGPT"),
            ("V S Code", "VS Code"),
        ),
        *(("Cursor", "Cursor"), ("Gemini CLI", "Gemini"), ("OpenAI Codex", "OpenAI"), ("Copilot", "Copilot")),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        *("evil.example", "notclaude.ai", "claude.ai.evil.example", "evil:"),
        # Anyone may publish a program there that receives a code.
        *("script.google.com", "sites.google.com", "gist.github.com"),
    ],
)
def test_a_known_name_from_another_place_is_an_imitation(name: str, known: str, place: str) -> None:
    assert imitated(name, place) == known


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *(("Сlaude", "Claude"), ("CIaude", "Claude"), ("C1aude", "Claude"), ("Cl4ude", "Claude")),
        *(
            ("Cl\u200baude", "Claude"),
            ("Cl<U+200B>aude", "Claude"),
            ("C\u0301laude", "Claude"),
            ("Ｃｌａｕｄｅ", "Claude"),
        ),
        *(("𝓒𝓵𝓪𝓾𝓭𝓮", "Claude"), ("ꓚlaude", "Claude"), ("clɑude", "Claude"), ("ϲlaudе", "Claude")),
        *(
            ("ChatGРT", "ChatGPT"),
            ("Сursοr", "Cursor"),
            ("Gernini", "Gemini"),
            ("Vİsual Studio", "Visual Studio"),
        ),
        # Cherokee, where capitals are what small letters are folded to; Coptic; letters with a stroke; in circles.
        *(("Ꮯlaude", "Claude"), ("ꮯlaude", "Claude"), ("Ⲥlaude", "Claude"), ("ClauđE", "Claude")),
        *(("OpenᎪI", "OpenAI"), ("Cursør", "Cursor"), ("🅒🅛aude", "Claude"), ("🅲laude", "Claude")),
        *(("Cłaude", "Claude"), ("Cⵏaude", "Claude"), ("𐌂laude", "Claude"), ("CħatGPT", "ChatGPT")),
        # Letters that are drawn as nothing, and one that no page shows.
        *(("Cl\u115faude", "Claude"), ("Cl\u3164aude", "Claude"), ("Cl\u2800aude", "Claude")),
        *(("Cl\ufe0faude", "Claude"), ("Cl\ue000aude", "Claude")),
        *(("Cоdex", "Codex"), ("0penAI", "OpenAI"), ("Wi\u200dndsurf", "Windsurf"), ("VS Cоde", "VS Code")),
    ],
)
def test_letters_that_only_look_like_a_known_name_are_an_imitation_on_this_computer_too(
    name: str, known: str
) -> None:
    assert imitated(name, None) == known


def test_what_is_known_of_a_client_depends_on_who_knows_it() -> None:
    claude = client_of("mcp-1", redirect_uris=("https://evil.example/cb", LOOPBACK, LOOPBACK))
    cursor = client_of("mcp-2", name="Cursor", redirect_uris=(CURSOR,))

    assert identity("local", "Claude", None) is None
    assert identity("https://claude.ai/oauth/client", "Claude", None) == ClientIdentity(host="claude.ai")
    assert identity("https://a.example/client", "Claude", None) == ClientIdentity(
        host="a.example", imitates="Claude"
    )
    assert identity("mcp-1", "Claude", claude) == ClientIdentity(
        leads_to=("evil.example", ""), imitates="Claude"
    )
    assert identity("mcp-2", "Cursor", cursor) == ClientIdentity(leads_to=("cursor:",))
    assert identity("kc-client", "Claude", None) == ClientIdentity(id="kc-client")
    assert identity("kc-client", "Сlaude", None) == ClientIdentity(id="kc-client", imitates="Claude")


def test_a_name_that_takes_long_to_read_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def contains(_: str, known: str) -> bool:
        read.append(known)
        return False

    monkeypatch.setattr(look_alikes, "contains", contains)
    imitated.cache_clear()
    for _ in range(3):
        imitated("\ufdfa" * 100, "app.example.org")
    imitated.cache_clear()

    assert len(read) == len(set(read)) > 0

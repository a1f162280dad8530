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
        # Signs with the shape of a letter, also in place of the last one.
        *(("CLAUDΞ", "Claude"), ("CLAUD∃", "Claude"), ("CL∆UDE", "Claude"), ("CL∀UDE", "Claude")),
        *(("C○dex", "Codex"), ("Code✗", "Codex"), ("CursoЯ", "Cursor"), ("Gemin¡", "Gemini")),
        *(("OPEN▲I", "OpenAI"), ("OpenA│", "OpenAI"), ("ChatGP┬", "ChatGPT"), ("Le Cha†", "Le Chat")),
        *(("Cоdex", "Codex"), ("0penAI", "OpenAI"), ("Wi\u200dndsurf", "Windsurf"), ("VS Cоde", "VS Code")),
    ],
)
def test_letters_that_only_look_like_a_known_name_are_an_imitation_on_this_computer_too(
    name: str, known: str
) -> None:
    assert imitated(name, None) == known


@pytest.mark.parametrize("place", ["app.example.org", None])
@pytest.mark.parametrize(
    "name",
    [
        "Le château",
        "Mon château",
        "Les châtaignes",
        "Le chaton",
        "Le châtelain",
        "Mobile Chat",
        "Simple Chat",
        "Team Le Châtelet",
        "Google Chat",
        "Ville Châtillon",
        "Wind & Surf",
        "Wind + Surf",
        "Wind, Surf",
        "Windsurfing Kiel",
        "Windsurfschule Sylt",
        "Los windsurfistas",
        "Open Air Kino",
        "Open-Air-Kino",
        "OpenAir Basel",
        "Openair 2026",
        "OpenAirKino",
        "L'Open Air",
        "OpenAIRE",
        "Code Export",
        "Code-Explorer",
        "CodeExplorer",
        "QR code examples",
        "Code Exchange",
        "Barcode extractor",
        "Curs oral",
        "Curs orientat",
        "Cursory notes",
        "Precursor",
        "Precursores del jazz",
        "Mon copilote",
        "La copilota",
        "Eco Pilot",
        "Eco-pilot",
        "Pico Pilot",
        "Ecopilot",
        "Philanthropic Notes",
        "Misanthropic Diary",
        "Claudette",
        "Paul Claudel",
        "Geminiani",
        "Geminids 2026",
        "Audiovisual Studio",
        "Audiovisual studios",
        "TVs codec",
        "Revs Code",
        "Chemist rally",
        "Open Air (Berlin)",
        "Café «Le château» ☕",
        "Le château 🏰",
        "☕ Le château",
        "Straße & Open Air",
        "Le chatbot de Marie",
        "Zażółć Le château",
        "Notes d'Océane: le château",
        "Discours, or silence",
        "Next: cloudy days",
        "Libre château",
    ],
)
def test_an_innocent_name_in_ordinary_words_imitates_no_client(name: str, place: str | None) -> None:
    assert imitated(name, place) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *(
            ("claudecode", "Claude"),
            ("myclaude", "Claude"),
            ("MyClaude", "Claude"),
            ("ClaudeCode", "Claude"),
            ("CLAUDECODE", "Claude"),
            ("openaichat", "OpenAI"),
            ("OpenAIchat", "OpenAI"),
            ("OpenAiBot", "OpenAI"),
            ("ChatGPTs", "ChatGPT"),
            ("LeChat", "Le Chat"),
            ("le-chat", "Le Chat"),
            ("Le  Chat Pro", "Le Chat"),
            ("LE CHAT", "Le Chat"),
            ("lechat", "Le Chat"),
            ("Lé Chàt", "Le Chat"),
            ("Le Chat助手", "Le Chat"),
            ("Wind Surf", "Windsurf"),
            ("Wind-Surf", "Windsurf"),
            ("windsurfai", "Windsurf"),
            ("VSCode", "VS Code"),
            ("vs_code", "VS Code"),
            ("vscodepro", "VS Code"),
            ("ClAuDe", "Claude"),
            ("ClAuDeCode", "Claude"),
            ("V S Code", "VS Code"),
            ("C.l.a.u.d.e", "Claude"),
            ("C l a u d e", "Claude"),
            ("Cläude", "Claude"),
            ("Clàudecode", "Claude"),
            ("Open AI", "OpenAI"),
            ("Open.AI", "OpenAI"),
            ("Open/AI", "OpenAI"),
            ("0penAI", "OpenAI"),
            ("Claud3", "Claude"),
            ("Cl4ude", "Claude"),
            ("Cl4udecode", "Claude"),
            ("Gernini", "Gemini"),
            ("VVindsurf", "Windsurf"),
            ("Cursors", "Cursor"),
            ("Claude & Friends", "Claude"),
            ("Notes, by Claude", "Claude"),
            ("Claude ☕", "Claude"),
            ("Le Chat (Berlin)", "Le Chat"),
            ("My (laude", "Claude"),
            ("(laude", "Claude"),
            ("Le (hat", "Le Chat"),
            ("Le Сhat", "Le Chat"),
            ("Cursør", "Cursor"),
            ("Cłaude", "Claude"),
            ("Cl\u0363ude", "Claude"),
            ("Cl\u200baude", "Claude"),
            ("Visua! Studio", "Visual Studio"),
            ("Cha+GPT", "ChatGPT"),
            ("C. laude", "Claude"),
            ("Claude's notes", "Claude"),
            ("Le-Chat-Bot", "Le Chat"),
            ("Copilot2", "Copilot"),
            ("Claude4", "Claude"),
            ("Le Chat.", "Le Chat"),
            ("MonLeChat", "Le Chat"),
            ("匚乚卂凵刀乇", "Claude"),
            ("Hi 匚乚卂凵刀乇", "Claude"),
            ("Le chât", "Le Chat"),
        )
    ],
)
def test_a_known_name_within_another_in_any_spelling_is_an_imitation(name: str, known: str) -> None:
    assert imitated(name, "evil.example") == known


def test_what_is_known_of_a_client_depends_on_who_knows_it() -> None:
    claude = client_of("mcp-1", redirect_uris=("https://evil.example/cb", LOOPBACK, LOOPBACK))
    cursor = client_of("mcp-2", name="Cursor", redirect_uris=(CURSOR,))

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

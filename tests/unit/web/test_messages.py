import re
from importlib.resources import files
from string import Formatter

import pytest

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.storage.failure import SENTENCES
from nextcloud_mcp_server.tools.registry import CONNECTION, TOOLSETS, load
from nextcloud_mcp_server.web.account import MESSAGES
from nextcloud_mcp_server.web.messages import catalogue, english, language_of, languages
from nextcloud_mcp_server.web.problem import ACCOUNT, CLIENT, PEOPLE, PERSONAL, Problems, problem_of

# What only those who build this know, in English and as other languages call it.
JARGON = re.compile(
    r"\b(tokens?|grants?|elicitations?|scopes?|mcp|oauth|credentials?|provision\w*"
    r"|jetons?|portées?|fichas?|ámbitos?|credencial(es)?|provisi[oó]n\w*|concesi[oó]n(es)?)\b",
    re.IGNORECASE,
)


#: One number for each form that a language of Europe may have for counts.
COUNTS = (0, 1, 2, 5, 21)


def said(language: str) -> dict[str, str]:
    """Return all forms of each sentence, one after the other."""
    say = catalogue(language).say
    return {key: " ".join(dict.fromkeys(say(key, count) for count in COUNTS)) for key in english()}


def names(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("de", "de"),
        ("de-AT,en;q=0.5", "de"),
        ("en-GB,en;q=0.9,de;q=0.8", "en"),
        ("it,de;q=0.4,en;q=0.3", "de"),
        ("pt,fr-CA;q=0.4,en;q=0.3", "fr"),
        ("es-MX,es;q=0.9", "es"),
        ("en;q=0.1,DE;q=0.2", "de"),
        ("de;q=0", "en"),
        ("de;q=high", "en"),
        ("de;level=1", "en"),
        ("*", "en"),
        ("x" * 500 + ",de", "en"),
    ],
)
def test_the_language_a_browser_likes_best_is_chosen(header: str | None, language: str) -> None:
    assert language_of(header) == language


@pytest.mark.parametrize("language", languages())
def test_no_sentence_holds_a_word_of_the_trade(language: str) -> None:
    found = {key: JARGON.findall(text) for key, text in said(language).items() if JARGON.search(text)}

    assert found == {}


def test_every_permission_has_its_sentences() -> None:
    keys = english().keys()

    assert {f"{part}.{scope}" for scope in SCOPES for part in ("scope", "scope_detail")} <= keys


def test_everything_an_app_can_do_has_its_words() -> None:
    specs = [spec for toolset in TOOLSETS for spec in load(toolset).tools]
    # The audit log of earlier versions names tools of apps as they were called then.
    before = {name for spec in specs if spec.toolset != CONNECTION for name in spec.aliases}
    tools = {spec.name for spec in specs} | before

    assert {f"action.{tool}" for tool in tools} == {key for key in english() if key.startswith("action.")}


def test_everything_the_account_page_can_be_told_to_say_has_its_words() -> None:
    assert {f"message.{what}" for what in MESSAGES} == {
        key for key in english() if key.startswith("message.")
    }


@pytest.mark.parametrize("problems", [PERSONAL, PEOPLE, CLIENT, ACCOUNT])
def test_every_problem_has_its_words(problems: Problems) -> None:
    keys = english().keys()

    assert {f"problem.{problem.kind}.{part}" for _, problem in problems for part in ("title", "lead")} <= keys


@pytest.mark.parametrize("language", languages())
def test_every_failure_of_a_consent_request_has_its_words_with_the_same_values(language: str) -> None:
    words = {key: names(text) for key, text in said(language).items() if key.startswith("failed.")}

    assert words == {f"failed.{code}": names(text) for code, text in SENTENCES.items()}


@pytest.mark.parametrize("language", languages())
def test_the_markup_in_a_sentence_is_closed(language: str) -> None:
    for key, text in said(language).items():
        assert re.findall(r"<(\w+)", text) == re.findall(r"</(\w+)>", text), key


def test_every_sentence_is_used_and_every_used_one_exists() -> None:
    templates = files("nextcloud_mcp_server.web").joinpath("templates")
    text = " ".join(template.read_text("utf-8") for template in templates.iterdir())
    used = set(re.findall(r"""t\(["']([a-z_.]+[a-z])["']""", text))
    built = (
        *(
            "scope.",
            "scope_detail.",
            "action.",
            "app.",
            "access.",
            "authorize.",
            "consent.",
            "failed.",
            "problem.",
            "message.",
            "moment.",
            "month.",
        ),
        *("declined.", "gone.", "not_me.", "sign_in.", "nextcloud.", "waiting.minutes", "waiting.moments"),
        *("cancelled.", "denied.", "not_member.", "not_possible.", "sent.", "switch.", "to_sign_in."),
    )

    assert used <= english().keys()
    assert {key for key in english().keys() - used if not key.startswith(built)} == set()


def test_an_unexpected_error_is_shown_as_one_of_this_server() -> None:
    assert problem_of(ValueError("x")).kind == "internal"

# ruff: noqa: RUF001 - letters that look like others are what is tried
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from nextcloud_mcp_server.auth.known_clients import imitated
from nextcloud_mcp_server.auth.look_alikes import contains, readings

_FORM = (
    "ANGLICANA|ARCHAIC|BARRED|BLACKLETTER|BOTTOM HALF|BROKEN|CLOSED|DOTLESS|DOUBLE|EGYPTOLOGICAL|GLOTTAL|HALF|INSULAR|"
    "INVERTED|LENIS|MIDDLE SCOTS|MIDDLE-WELSH|OLD POLISH|OPEN|REVERSED|SCRIPT|SIDEWAYS|SIGMOID|SMALL CAPITAL|STIRRUP|"
    "STRETCHED|TOP HALF|TURNED|VISIGOTHIC|VOLAPUK|AFRICAN|DIAERESIZED|LONG"
)
#: Names of the Unicode Character Database: `LATIN SMALL LETTER L WITH DOUBLE BAR`, `LATIN LETTER SMALL CAPITAL D`.
_LATIN_LETTER = re.compile(
    rf"(?:COMBINING |MODIFIER |(?:CROSSED )?NEGATIVE \w+ |PARENTHESIZED |SQUARED |CIRCLED |FULLWIDTH )?LATIN "
    rf"(?:EPIGRAPHIC )?(?:SUBSCRIPT )?(?:CAPITAL |SMALL )?(?:LETTER|LIGATURE) (?:(?:{_FORM}) )*(?P<base>[A-Z]{{1,2}})\b"
)
LATIN = {
    character: found["base"].lower()
    for character in map(chr, range(sys.maxunicode + 1))
    if (found := _LATIN_LETTER.match(unicodedata.name(character, "")))
}
CONFUSABLE = [
    line.rstrip("\n").split("\t")
    for line in (Path(__file__).parent / "confusables.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


def test_every_latin_letter_reads_as_the_letter_in_its_name() -> None:
    missed = {character for character, base in LATIN.items() if not contains(character, base)}

    assert missed == set()
    assert len(LATIN) > 1_300
    assert set("ⱡꝉꞒƇᴅᶑɐɔꟼ🅐ﬂ") <= set(LATIN)


@pytest.mark.parametrize(("letters", "characters"), CONFUSABLE)
def test_every_confusable_character_of_unicode_reads_as_what_it_looks_like(
    letters: str, characters: str
) -> None:
    assert [character for character in characters if not contains(character, letters)] == []


def test_a_known_name_is_found_with_any_one_letter_replaced_by_a_latin_one_with_a_mark() -> None:
    name = "Claude"
    replaced = [
        f"{name[:at]}{character}{name[at + 1 :]}"
        for at, letter in enumerate(name.lower())
        for character, base in LATIN.items()
        if base == letter and not character.isascii()
    ]

    assert [one for one in replaced if imitated(one, None) != "Claude"] == []
    assert len(replaced) > 200


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Cꝉaude",
            "Ꞓlaude",
            "Ƈlaude",
            "Clauᴅe",
            "Clⱡaude",
            "CLΑUDΕ",
            "Clɐude",
            "Ↄlaude",
            "🄒laude",
            "ↄⅼaude",
        ),
        *("Cllaude", "daude", "C.l|aude", "Clavde", "Clau∂e", "Claude\u0301", "C\u036alaude", "ꓚꓡꓮꓴꓓꓰ"),
    ],
)
def test_claude_is_found_in(name: str) -> None:
    assert contains(name, "Claude")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        # Capitals of Greek and Cherokee have other shapes than the small letters that they are folded to.
        *(
            ("CΗATGPT", "ChatGPT"),
            ("GEΜIΝI", "Gemini"),
            ("ΝEXTCLOUD", "Nextcloud"),
            ("PERPLEXITΥ", "Perplexity"),
        ),
        *(("VIЅUAL STUDIO", "Visual Studio"), ("Gernini", "Gemini"), ("VVindsurf", "Windsurf")),
        *(("M\ue000stral", "Mistral"), ("M\U0001dfffstral", "Mistral")),
        *(("🅜🅘🅢🅣🅡🅐🅛", "Mistral"), ("🇨🇴🇩🇪🇽", "Codex"), ("C℮dex", "Cedex"), ("Cœdex", "Coedex")),
    ],
)
def test_other_names_are_found_in_other_letters(name: str, known: str) -> None:
    assert contains(name, known)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *(("Clade", "Claude"), ("Cluade", "Claude"), ("Claudia", "Claude"), ("Cloud", "Claude")),
        *(
            ("Curso público", "Cursor"),
            ("Клод", "Claude"),
            ("会议", "Codex"),
            ("", "Codex"),
            ("Cl会aude", "Claude"),
        ),
    ],
)
def test_a_name_of_other_letters_is_not_found(name: str, known: str) -> None:
    assert not contains(name, known)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        # Tone letters, letters of other scripts and signs, for which no table has a reading.
        *(("꜀laude", "Claude"), ("C꜂aude", "Claude"), ("Cla꜄de", "Claude"), ("˓laude", "Claude")),
        *(("Cлaude", "Claude"), ("Curꮥor", "Cursor"), ("ገemini", "Gemini"), ("My ꜀laude Code", "Claude")),
        *(("★laude", "Claude"), ("*odex", "Codex"), ("my ☽laude", "Claude"), ("?ursor", "Cursor")),
        # Punctuation that is written for a letter.
        *(("(laude", "Claude"), ("[laude", "Claude"), ("{laude", "Claude"), ("<laude>", "Claude")),
        *(("C|aude", "Claude"), ("C!aude", "Claude"), ("Cl@ude", "Claude"), ("Cur$or", "Cursor")),
        *(("€laude", "Claude"), ("0penAI", "OpenAI"), ("C1aude", "Claude"), ("C£aude", "Claude")),
        *(("Cl^ude", "Claude"), ("C#atGPT", "ChatGPT"), ("6emini", "Gemini"), ("Le (hat", "Le Chat")),
        # What writes Latin letters with ideographs.
        *(("匚laude", "Claude"), ("匚乚卂凵刀乇", "Claude"), ("口penAI", "OpenAI"), ("⊂laude", "Claude")),
    ],
)
def test_one_character_may_stand_for_any_letter_if_it_is_none_and_no_ordinary_punctuation(
    name: str, known: str
) -> None:
    assert contains(name, known)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Claudia's notes",
            "Claudio",
            "Cloud notes",
            "Clause",
            "Claud's notes",
            "Claud’s notes",
            "Claud´s notes",
        ),
        *(
            "Cursive",
            "Curso (público)",
            "Curso: Python",
            "Curso público",
            "Curse",
            "Course",
            "Курсор",
            "Cursos",
        ),
        *(
            "Codes",
            "Code",
            "Code!",
            "Code™",
            "Code*",
            "Code🚀",
            "Code助手",
            "Code会议",
            "My code",
            "Codec",
            "Codeи",
        ),
        *("Co-existence", "Co–existence", "Co/existence", "Open-Library", "Open★Library", "Open·Library"),
        *("Open→Linux", "Open’Lab", "Magna cum laude", "Magna-cum-laude", "Cum “laude”", "Cum 'laude'"),
        *("Gemeinde", "Gemma", "Mist", "Maestral", "Applaudo", "Nextcloux", "Windsor", "Chat"),
        *(
            "Le tchat",
            "Copy lots",
            "Perplex",
            "Notes of mine",
            "会议记录",
            "Заметки",
            "ملاحظات",
            "Notizen (privat)",
        ),
    ],
)
def test_an_ordinary_name_imitates_no_client(name: str) -> None:
    assert imitated(name, "app.example.org") is None
    assert imitated(name, None) is None


def test_what_is_no_letter_may_be_overlooked_and_an_unknown_character_may_be_any() -> None:
    assert readings("-") == {""}
    assert readings("|") == {"", "l"}
    assert readings("m") == {"m", "rn"}
    assert readings("会") == set()
    assert {"", "a", "z"} < readings("\ue000")

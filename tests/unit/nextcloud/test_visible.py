import pytest

from nextcloud_mcp_server.nextcloud.visible import quoted, visible


@pytest.mark.parametrize("name", ["plain.txt", "Ünï cödé 日本 🎉.txt", "with space"])
def test_honest_names_stay_as_they_are(name: str) -> None:
    assert visible(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("invoice\u202egnp.exe", "invoice<U+202E>gnp.exe"),
        ("zero\u200bwidth", "zero<U+200B>width"),
        ("line\nbreak", "line<U+000A>break"),
        ("para\u2029graph", "para<U+2029>graph"),
        ("filler\u3164", "filler<U+3164>"),
        ("tag\U000e0041", "tag<U+E0041>"),
    ],
)
def test_hidden_characters_are_written_out(name: str, shown: str) -> None:
    assert visible(name) == shown


def test_a_long_name_is_cut_in_a_sentence() -> None:
    assert quoted("a") == "'a'"
    assert quoted("x" * 300) == "'" + "x" * 200 + "…'"

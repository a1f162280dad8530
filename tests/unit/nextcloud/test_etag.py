import pytest

from nextcloud_mcp_server.errors import InvalidInput, ServerFault
from nextcloud_mcp_server.nextcloud import etag


@pytest.mark.parametrize(
    "written",
    [
        "97f8d162",
        '"97f8d162"',
        'W/"97f8d162"',
        '"97f8d162-gzip"',
        'W/"97f8d162-gzip"',
        '"97f8d162"-gzip',
        ' "97f8d162" ',
    ],
)
def test_every_spelling_of_an_etag_means_the_same(written: str) -> None:
    """B16: the Notes body has no quotes, the header has."""
    assert etag.normalise(written) == "97f8d162"
    assert etag.quote(written) == '"97f8d162"'


@pytest.mark.parametrize("written", ["", "*", '""', "a\r\nX: y", 'a"b', "ä", "a" * 300])
def test_what_cannot_be_an_etag_is_refused_before_it_reaches_a_header(written: str) -> None:
    with pytest.raises(InvalidInput, match="not an etag"):
        etag.quote(written)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"ETag": '"a"'}, "a"),
        ({"ETag": '"rewritten-gzip"', "OC-ETag": '"a"'}, "a"),
        ({"ETag": ""}, None),
        ({}, None),
    ],
)
def test_oc_etag_wins_and_a_missing_etag_is_none(headers: dict[str, str], found: str | None) -> None:
    assert etag.of(headers) == found


@pytest.mark.parametrize("absent", [None, ""])
def test_an_absent_etag_is_absent_and_guards_nothing(absent: str | None) -> None:
    with pytest.raises(ServerFault, match=r"named no version .* read it again"):
        etag.required(absent)

    assert etag.required("e1") == "e1"

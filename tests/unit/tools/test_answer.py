import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import ImageContent, TextContent

from nextcloud_mcp_server.errors import Link, TooLarge
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.result import Document, ImageResult, NextStep, Result


class Note(Result):
    title: str
    tags: list[str] | None = None


class Text(Document):
    etag: str
    size: int | None = None


def test_data_goes_out_as_compact_json_and_as_structured_content() -> None:
    """U41: one object in one block, for clients that read only the first."""
    result = answer.result(Note(title="Grüße"))

    assert [block.text for block in result.content if isinstance(block, TextContent)] == ['{"title":"Grüße"}']
    assert result.structured_content == {"title": "Grüße"}
    assert not result.is_error


def test_a_reference_of_thousands_of_digits_goes_out() -> None:
    """Python reads numbers of at most 4,300 digits."""
    text = f"https://cloud.example.org/&#{'9' * 5_000};"

    assert answer.result(Note(title=text)).structured_content == {"title": text}
    assert answer.safe(text) == text


@pytest.mark.parametrize("path", ["login/flow", "apps/oauth2/authorize", "oauth/provision?x", "authorize?x"])
def test_a_consent_path_is_found_behind_very_long_segments(path: str) -> None:
    link = f"/{'a' * 100_000}{'/x/..' * 10_000}/{path}/.."

    assert answer.safe(link) == answer.NEUTRALISED
    assert answer.safe(link.replace(path, "x/y")) == link.replace(path, "x/y")


def test_half_of_a_surrogate_pair_goes_out_as_an_escape() -> None:
    """JSON in UTF-8 cannot hold one (RFC 8259 §8.2 and RFC 3629 §3)."""
    result = answer.result(Note(title="a\ud800"))

    assert [block.text for block in result.content if isinstance(block, TextContent)] == [
        '{"title":"a<U+D800>"}'
    ]
    assert result.structured_content == {"title": "a<U+D800>"}


def test_a_document_goes_out_as_a_line_of_data_and_its_text_as_it_is() -> None:
    result = answer.result(Text(content="# Hi\r\n\ttab", etag="e1"))

    assert [block.text for block in result.content if isinstance(block, TextContent)] == [
        '{"etag":"e1"}\n\n# Hi\r\n\ttab'
    ]
    assert result.structured_content == {"content": "# Hi\r\n\ttab", "etag": "e1"}


def test_an_image_goes_out_as_image_content() -> None:
    result = answer.result(ImageResult(mime_type="image/png", data=b"\x89PNG"))

    image = result.content[1]
    assert isinstance(image, ImageContent)
    assert (image.mime_type, image.data) == ("image/png", "iVBORw==")
    assert result.structured_content == {"mime_type": "image/png"}


def test_only_the_link_of_this_server_follows_a_next_step() -> None:
    """A link in the text itself may be another user's, so it is removed as everywhere."""
    own = "https://mcp.example.org/oauth/provision?elicitationId=1"
    step = NextStep(
        next_step="See https://evil.example/login/v2/flow/abc", link=Link(own, "Then call again.")
    )

    result = answer.result(step)

    told = f"See {answer.NEUTRALISED}\n\n{own}\n\nThen call again."
    assert result.structured_content == {"next_step": told}
    assert [json.loads(block.text) for block in result.content if isinstance(block, TextContent)] == [
        {"next_step": told}
    ]


@pytest.mark.parametrize("title", ["x" * 40_000, "\x01" * 100_000], ids=["long", "long when it is written"])
def test_a_result_over_the_budget_is_refused(title: str) -> None:
    """B74: text and structured content count together."""
    with pytest.raises(TooLarge, match="ask for less"):
        answer.result(Note(title=title))


@pytest.mark.parametrize(
    "link",
    [
        "https://cloud.example.org/login/v2/flow/abc",
        "https://cloud.example.org/index.php/login/v2/flow/abc?user=x",
        "http://cloud.example.org/index.php/apps/oauth2/authorize?client_id=1&state=2",
        "/login/flow/grant",
        "HTTPS://CLOUD.EXAMPLE.ORG/LOGIN/V2/FLOW/abc",
        "http://127.0.0.1:8765/oauth/provision?elicitationId=550e8400-e29b-41d4-a716-446655440000",
        "https://mcp.example.org/oauth/callback/nextcloud?code=1",
    ],
)
def test_links_that_open_a_consent_page_are_not_passed_on(link: str) -> None:
    result = answer.result(Note(title=f"see {link} now", tags=[f"[x]({link})"]))

    assert result.structured_content == {
        "title": f"see {answer.NEUTRALISED} now",
        "tags": [f"[x]({answer.NEUTRALISED})"],
    }


@pytest.mark.parametrize(
    "text",
    [
        *("https://cloud.example.org/f/12", "the login flow", "oauth provision", "/login"),
        *(
            "GET /authorize, then /token",
            "https://x.test/docs/authorize",
            "https://x.test/a?client_id=7&page=2",
        ),
        *("response_type=code&client_id=x", "https://x.test/c?response_type=code", "a?b=user_code=c"),
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert answer.neutralise_links(text) == text


PIECES = [
    "/login",
    "/flow",
    "/v2",
    "/LOGIN/flow",
    "/%66low",
    "\\",
    "/oauth/callback",
    "/authorize?",
    "&client_id=",
    "?client_id=",
    ";response_type=",
    "?response_type=",
    "?user_code=",
    "/apps",
    "/oidc",
    "/AUTHORIZE",
    " ",
    '"',
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_answer_keeps_a_link_that_its_texts_would_lose(text: str) -> None:
    result = answer.result(Note(title=text))

    assert result.structured_content == {"title": answer.neutralise_links(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a/b" * 350_000, "a/b" * 350_000, id="one word without a link"),
        pytest.param("%2F" * 350_000, "%2F" * 350_000, id="one encoded word"),
        pytest.param("/login/" * 150_000, "/login/" * 150_000, id="beginnings of links"),
        pytest.param("/login/flow" * 100_000, answer.NEUTRALISED, id="links in one word"),
        pytest.param("/login/flow " * 90_000, f"{answer.NEUTRALISED} " * 90_000, id="links in many words"),
        pytest.param(
            f"{'a' * 500_000}/oauth/waiting{'b' * 500_000}",
            answer.NEUTRALISED,
            id="a long link",
        ),
    ],
)
def test_a_megabyte_of_hostile_text_is_gone_through_once(text: str, expected: str) -> None:
    assert answer.neutralise_links(text) == expected


def test_a_link_in_a_document_is_removed_from_text_and_structured_content() -> None:
    result = answer.result(Text(content="see https://x/login/v2/flow/a.", etag="e1", size=30))

    assert [block.text for block in result.content if isinstance(block, TextContent)] == [
        f'{{"etag":"e1","size":30}}\n\nsee {answer.NEUTRALISED}'
    ]
    assert result.structured_content == {"content": f"see {answer.NEUTRALISED}", "etag": "e1", "size": 30}


def test_errors_are_marked_and_their_links_neutralised() -> None:
    result = answer.failure("No note 'https://x/login/v2/flow/a'.")

    assert result.is_error
    assert [block.text for block in result.content if isinstance(block, TextContent)] == [
        f"No note '{answer.NEUTRALISED}'."
    ]


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (f"a {answer.NEUTRALISED}", True),
        (["a", answer.NEUTRALISED], True),
        ({"Name": "a", "Link": answer.NEUTRALISED}, True),
        ({"Name": "a"}, False),
        ("a", False),
        (7, False),
        (None, False),
    ],
)
def test_what_stands_for_a_removed_link_is_recognised(value: object, holds: bool) -> None:  # noqa: FBT001 - a table
    assert answer.holds_neutralised_links(value) is holds


def test_an_error_is_one_line_however_long_and_odd_the_names_in_it_are() -> None:
    [block] = answer.failure(f"No label 'a\nb\u202e{'x' * 9000}'.").content

    assert isinstance(block, TextContent)
    assert block.text.startswith("No label 'a<U+000A>b<U+202E>xxx")
    assert (len(block.text), block.text[-1]) == (4000, "…")

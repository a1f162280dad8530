import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.consent_links import NEUTRALISED, may_hold_link, neutralise_links

#: Parameters that some server reads as `client_id` and `response_type`, or as `user_code` (test_parameter_names.py).
QUERIES = [
    *(
        "client.id=x&response.type=code",
        "client%20id=x&response+type=code",
        "%20client_id=x&%20response_type=code",
    ),
    *(
        "client[id=x&response[type=code",
        "client%5bid=x;response%5Btype=code",
        "client+id=x&request+uri=urn:x",
    ),
    *(
        "client_id[]=x&response_type[]=code",
        "[client_id]=x;[response_type]=code",
        "client_id%00=x&response_type=code",
    ),
    *(
        "CLIENT_ID=x&Response_Type=code",
        "client%u005fid=x&response_type=code",
        "%63lient%5Fid=x&response_type=code",
    ),
    *(
        "client_id=x&redirect_uri=https://a.example",
        "user.code=ABCD",
        "user+code=ABCD",
        "user[code=ABCD",
        "User_Code=A",
    ),
    # Quotes, brackets and other spaces do not end a link.
    *(
        "client_id=x&a='&response_type=code",
        'client_id=x&a="&response_type=code',
        "client_id=x;a=(;response_type=code",
    ),
    *("client_id=x&a=<b>&response_type=code", "client_id=x&a=b\u00a0c&response_type=code"),
    # A backslash before punctuation is none, in Markdown.
    r"client\_id=x&response\_type=code",
    # White space, when the whole is copied.
    *("client id=x&response type=code", " client_id=x& response_type=code", "user code=ABCD"),
    "\nclient_id=x&\nresponse_type=code",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    "before", ["https://id.example.org/s?", "https://id.example.org/s#", "id.example.org?a=1;"]
)
def test_an_authorization_request_is_removed_in_every_spelling_a_server_takes(
    before: str, query: str
) -> None:
    assert neutralise_links(f"see {before}{query} now") == f"see {NEUTRALISED} now"


@pytest.mark.parametrize("query", QUERIES)
def test_an_authorization_request_is_removed_that_another_page_leads_to(query: str) -> None:
    encoded = "".join(f"%{ord(c):02X}" if c < "\x80" else c for c in f"https://id.example.org/sso?{query}")

    assert neutralise_links(f"see https://a.example/out?to={encoded} now") == f"see {NEUTRALISED} now"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[x](<https://id.example.org/sso?client id=x&response type=code>)", f"[x](<{NEUTRALISED}>)"),
        ('<a href="https://id.example.org/sso?user code=x">', f'<a href="{NEUTRALISED}">'),
        ('<a href=" https://c.example.org/log\nin/v2/fl\tow/x\n">', f'<a href="{NEUTRALISED}">'),
        ("see https://c.example.org/login/'/../v2/flow/x now", f"see {NEUTRALISED} now"),
        ('see https://c.example.org/login/"/../v2/flow/x now', f"see {NEUTRALISED} now"),
        ("see https://c.example.org/login/<b>/../v2/flow/x now", f"see {NEUTRALISED} now"),
        (r"[x](https://c.example.org/login/x/\.\./v2/flow/y)", f"[x]({NEUTRALISED})"),
        # The first link must not hide the second.
        ("[a](https://c/login/flow)(https://i/s?client[id=x&response[type=code)", NEUTRALISED),
    ],
)
def test_a_link_is_removed_however_it_is_quoted(text: str, left: str) -> None:
    assert neutralise_links(text) == left


#: Links to consent pages of every kind.
LINKS = [
    "https://mcp.example.org/oauth/provision?elicitationId=1",
    "http://c.example.org/login/v2/flow/abc",
    "https://c.example.org/index.php/apps/oauth2/authorize?client_id=1&response_type=code",
    "https://id.example.org/go?client_id=1&response_type=code",
    "//c.example.org/login/flow",
]


@given(
    link=st.sampled_from(LINKS),
    blanks=st.lists(st.tuples(st.integers(0, 60), st.sampled_from("\t\n\r")), min_size=1, max_size=6),
    quotes=st.sampled_from(['""', "''", "<>"]),
)
def test_a_quoted_link_is_removed_wherever_white_space_stands_that_browsers_drop(
    link: str, blanks: list[tuple[int, str]], quotes: str
) -> None:
    """URL Standard, 4.4: a browser removes tabs and newlines from the whole address, its scheme too."""
    spaced = link
    for place, blank in blanks:
        spaced = spaced[: place % len(link)] + blank + spaced[place % len(link) :]
    text = f"href={quotes[0]}{spaced}{quotes[1]}"

    assert NEUTRALISED in neutralise_links(text)
    assert may_hold_link(answer.compact({"text": text}))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "https://x.test/a?client.id=7&page=2",
            "client id=7 & response type=code",
            "Client ID = 7; user code = 5",
        ),
        *('<a href="https://x.test/a b">', "it's /login and\n/flow, isn't it?", '"see /login\n/flow"'),
        *(
            "Which client?\nid=7",
            "user code=ABCD",
            '{"a":"/x?client_id=1","b":"/flow"}',
            r"C:\login\x.txt 'a\_b'",
        ),
    ],
)
def test_other_text_stays(text: str) -> None:
    assert neutralise_links(text) == text


def test_a_long_text_without_white_space_is_not_taken_for_one_address() -> None:
    text = '{"a":"/x?client_id=1"},' * 2_000 + '{"a":"/x?response_type=code"}'

    assert neutralise_links(text) == text


PIECES = [
    *("/login", "/flow", "/v2", "/%66low", "\\", "/oauth/callback", "/authorize?", "/..", "https:"),
    *(
        "&client_id=",
        "?client.id=",
        ";response type=",
        "?Response_Type=",
        "?user[code=",
        "#user_code=",
        ";request=",
    ),
    *(
        "client",
        "user",
        " id=",
        ".code=",
        "_",
        "[",
        "+",
        "\0",
        "\n",
        "\t",
        " ",
        '"',
        "'",
        "<",
        ">",
        "(",
        "\u00a0",
    ),
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_the_quick_look_misses_nothing(text: str) -> None:
    if neutralise_links(text) != text:
        assert may_hold_link(answer.compact({"text": text}))


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "?;",
            '"http:',
            '"http: \n',
            "'/a/../",
            ";user",
            "client ",
            "[",
            "\\_",
            "/\u00a0",
            "? ",
            "user ",
            "&#",
            "<>",
        ),
        '{"a":"/x?client_id=1","b":"y"},',
    ],
)
def test_a_long_text_takes_no_long_time(piece: str) -> None:
    started = time.process_time()

    neutralise_links(piece * 100_000)
    may_hold_link(answer.compact(piece * 100_000))

    assert time.process_time() - started < 30

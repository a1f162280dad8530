from collections.abc import AsyncGenerator, Callable

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.person import Person

CALLBACK = "https://mcp.example.org/callback"
START = "https://mcp.example.org/oauth/provision?elicitationId=x"

Answers = dict[tuple[str, str], httpx2.Response]


def html(body: str, status: int = 200, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, text=f"<title>t</title>{body}", headers=headers)


@pytest.fixture
async def meet() -> AsyncGenerator[Callable[[Answers], tuple[Person, list[str]]]]:
    """Make a user who meets these pages, and a list of what was sent."""
    opened: list[httpx2.AsyncClient] = []

    def _meet(answers: Answers) -> tuple[Person, list[str]]:
        sent: list[str] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            sent.append(f"{request.method} {request.url.path} {request.content.decode()}".strip())
            return answers[request.method, request.url.path]

        browser = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        opened.append(browser)
        return Person("alice", "her password", browser=browser), sent

    yield _meet
    for browser in opened:
        await browser.aclose()


async def test_a_user_signs_in_and_the_callback_is_not_opened() -> None:
    issuer = Issuer()
    issuer.add_client("app", secret="s", redirect_uris=[CALLBACK])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(issuer.app)) as browser:
        person = Person("bob", "bob", browser=browser)
        asked = f"response_type=code&client_id=app&redirect_uri={CALLBACK}&state=s&scope=openid"

        back = await person.sign_in(f"{issuer.url}/authorize?{asked}", until=CALLBACK)

    assert back.startswith(f"{CALLBACK}?code=")
    assert [page.title for page in person.seen] == ["Sign in"]


async def test_a_person_says_yes_on_every_page_until_there_is_nothing_to_say(
    meet: Callable[[Answers], tuple[Person, list[str]]],
) -> None:
    consent = (
        '<form action="/other"><input type="hidden" name="csrf" value="1"><button>Not you?</button></form>'
        '<form action="/consent"><button name="answer" value="none" hidden></button>'
        '<input type="radio" name="allow.a" value="read" checked><input type="radio" name="allow.b" value="read">'
        '<button name="answer" value="allow">Allow</button><button name="answer" value="deny">No</button></form>'
    )
    answers: Answers = {
        ("GET", "/oauth/provision"): html("<form method='post'><button>Continue</button></form>"),
        ("POST", "/oauth/provision"): httpx2.Response(303, headers={"Location": "/sign-in"}),
        ("GET", "/sign-in"): html('<form action="/in"><input name="user"><input name="password"></form>'),
        ("POST", "/in"): html("<p>going on</p>", Refresh="0; url=/consent"),
        ("GET", "/consent"): html(consent),
        ("POST", "/consent"): html('<a href="/login/flow/grant?x=1">Log in</a>'),
        ("GET", "/login/flow/grant"): html("<h1>Connected</h1>"),
    }
    alice, sent = meet(answers)

    page = await alice.consent(START, only=("b:read",))

    assert page.heading == "Connected"
    assert sent == [
        "GET /oauth/provision",
        "POST /oauth/provision",
        "GET /sign-in",
        "POST /in user=alice&password=her+password",
        "GET /consent",
        "POST /consent allow.b=read&answer=allow",
        "GET /login/flow/grant",
    ]


async def test_a_refusal_ends_the_consent_request(
    meet: Callable[[Answers], tuple[Person, list[str]]],
) -> None:
    alice, sent = meet({("GET", "/oauth/provision"): html("<form><button>Change</button></form>", 403)})

    page = await alice.consent(START)

    assert (page.status, sent) == (403, ["GET /oauth/provision"])


async def test_a_redirect_loop_is_given_up(
    meet: Callable[[Answers], tuple[Person, list[str]]],
) -> None:
    alice, _ = meet({("GET", "/oauth/provision"): html("", Refresh=f"0; url={START}")})

    with pytest.raises(RuntimeError, match="does not end"):
        await alice.consent(START)

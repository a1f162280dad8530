import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nextcloud_mcp_server.errors import TooManyRequests
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.limits import AddressLimits, Limits, Rates
from nextcloud_mcp_server.web.middleware import PageErrors

RATES = Rates(page=3, callback=2, failure=2, client=2, person=2)
GOOD, BAD = {"Authorization": "Bearer good"}, {"Authorization": "Bearer bad"}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Site:
    """A server that knows good tokens, and is reached from any address."""

    def __init__(self, limits: Limits, *, most_tokens: int = 100) -> None:
        routes = [
            Route("/mcp", self._mcp, methods=["POST", "OPTIONS"]),
            Route("/{path:path}", self._page),
        ]
        self._app = AddressLimits(Starlette(routes=routes), limits, most_tokens=most_tokens)
        self.calls = 0
        self.statuses = {"good": 200, "odd": 404}

    def client(self, address: str = "203.0.113.9") -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(self._app, client=(address, 1))
        return httpx2.AsyncClient(transport=transport, base_url="http://mcp")

    async def _mcp(self, request: Request) -> Response:
        self.calls += 1
        token = request.headers.get("authorization", "")[len("Bearer ") :].partition("-")[0]
        return PlainTextResponse(status_code=self.statuses.get(token, 401))

    async def _page(self, _: Request) -> Response:
        return PlainTextResponse("page")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> Limits:
    return Limits(RATES, monotonic=clock)


async def test_too_many_pages_from_one_address_get_a_page_that_says_when_to_come_back(
    limits: Limits, clock: Clock
) -> None:
    async with Site(limits).client() as browser:
        fine = [await browser.get("/oauth/provision") for _ in range(2)] + [await browser.get("/account")]
        clock.now += 20.5
        refused = await browser.get("/oauth/provision", headers={"Accept": "text/html"})
        clock.now += 40
        again = await browser.get("/oauth/provision")

    assert [answer.status_code for answer in (*fine, refused, again)] == [200, 200, 200, 429, 200]
    assert refused.headers["retry-after"] == "40"
    assert "Too many requests" in refused.text


async def test_a_program_gets_the_same_as_json(limits: Limits) -> None:
    async with Site(limits).client() as program:
        for _ in range(3):
            await program.get("/account")
        refused = await program.get("/account")

    assert refused.json() == {
        "error": "too_many_requests",
        "message": "Too many requests came from here; wait 60 seconds, then try again.",
    }


async def test_callbacks_have_a_limit_of_their_own(limits: Limits) -> None:
    async with Site(limits).client() as browser:
        answers = [await browser.get("/oauth/callback/sign-in") for _ in range(3)]
        page = await browser.get("/oauth/provision")

    assert [answer.status_code for answer in (*answers, page)] == [200, 200, 303, 200]
    assert answers[-1].headers["location"] == "/oauth/result?too-many#ended"
    assert answers[-1].headers["retry-after"] == "60"


async def test_what_costs_nothing_is_not_counted(limits: Limits) -> None:
    async with Site(limits).client() as browser:
        answers = [await browser.get(path) for path in ("/healthz", "/static/style.css") * 5]

    assert {answer.status_code for answer in answers} == {200}


async def test_one_address_s_limit_is_not_another_s(limits: Limits) -> None:
    site = Site(limits)
    async with site.client() as one, site.client("198.51.100.1") as other:
        for _ in range(4):
            await one.get("/account")

        assert (await one.get("/account")).status_code == 429
        assert (await other.get("/account")).status_code == 200


async def test_an_ipv6_network_counts_as_one_address(limits: Limits) -> None:
    site = Site(limits)
    for last in range(1, 4):
        async with site.client(f"2001:db8::{last}") as browser:
            await browser.get("/account")

    async with site.client("2001:db8::ffff") as same, site.client("2001:db8:0:1::1") as other:
        assert (await same.get("/account")).status_code == 429
        assert (await other.get("/account")).status_code == 200


async def test_a_peer_without_an_address_is_counted_too(limits: Limits) -> None:
    async with Site(limits).client("") as browser:
        answers = [await browser.get("/account") for _ in range(4)]

    assert answers[-1].status_code == 429


async def test_after_too_many_refused_tokens_an_address_is_not_even_listened_to(limits: Limits) -> None:
    site = Site(limits)
    async with site.client() as client:
        answers = [await client.post("/mcp", headers=BAD) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [401, 401, 429, 429]
    assert site.calls == 2


async def test_a_token_that_worked_goes_on_working_whatever_others_at_the_same_address_do(
    limits: Limits,
) -> None:
    async with Site(limits).client() as client:
        before = await client.post("/mcp", headers=GOOD)
        for _ in range(3):
            await client.post("/mcp", headers=BAD)
        after = await client.post("/mcp", headers=GOOD)

    assert (before.status_code, after.status_code) == (200, 200)


async def test_a_token_that_was_revoked_has_no_way_past_the_limit_any_more(limits: Limits) -> None:
    site = Site(limits)
    async with site.client() as client:
        await client.post("/mcp", headers=GOOD)
        site.statuses.clear()
        refused = await client.post("/mcp", headers=GOOD)
        await client.post("/mcp", headers=BAD)
        after = await client.post("/mcp", headers=GOOD)

    assert (refused.status_code, after.status_code) == (401, 429)


async def test_failures_that_arrive_at_once_are_all_told_what_is_wrong(limits: Limits) -> None:
    completed, all_there = 0, anyio.Event()

    async def refuse(_: Request) -> Response:
        nonlocal completed
        completed += 1
        if completed == 3:
            all_there.set()
        await all_there.wait()
        return PlainTextResponse(status_code=401)

    app = AddressLimits(Starlette(routes=[Route("/mcp", refuse, methods=["POST"])]), limits)
    answers: list[int] = []

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://mcp") as client:

        async def ask() -> None:
            answers.append((await client.post("/mcp", headers=BAD)).status_code)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(ask)
        await ask()

    assert answers == [401, 401, 401, 429]


async def test_asking_without_a_token_to_learn_where_to_get_one_is_no_failure(limits: Limits) -> None:
    async with Site(limits).client() as client:
        answers = [await client.post("/mcp") for _ in range(5)]
        questions = [await client.options("/mcp") for _ in range(5)]

    assert {answer.status_code for answer in answers} == {401}
    assert 429 not in {answer.status_code for answer in questions}


async def test_a_person_who_sends_too_much_is_told_by_the_page(limits: Limits) -> None:
    alice, bob = Principal("https://id", "alice"), Principal("https://id", "bob")

    async def send(request: Request) -> Response:
        await limits.person(alice)
        return PlainTextResponse("sent")

    app = Starlette(routes=[Route("/", send, methods=["POST"], middleware=[Middleware(PageErrors)])])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://mcp") as browser:
        answers = [await browser.post("/") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[-1].headers["retry-after"] == "60"
    await limits.person(bob)


async def test_the_same_subject_of_another_issuer_is_another_person(limits: Limits) -> None:
    for _ in range(2):
        await limits.person(Principal("https://id", "alice"))

    await limits.person(Principal("https://other", "alice"))
    with pytest.raises(TooManyRequests):
        await limits.person(Principal("https://id", "alice"))


async def test_of_the_tokens_that_worked_only_so_many_are_remembered(limits: Limits) -> None:
    first, second = {"Authorization": "Bearer good-1"}, {"Authorization": "Bearer good-2"}
    async with Site(limits, most_tokens=1).client() as client:
        for headers in (first, second, BAD, BAD):
            await client.post("/mcp", headers=headers)
        answers = [await client.post("/mcp", headers=headers) for headers in (second, first)]

    assert [answer.status_code for answer in answers] == [200, 429]


async def test_a_call_that_failed_for_another_reason_says_nothing_about_its_token(limits: Limits) -> None:
    odd = {"Authorization": "Bearer odd"}
    async with Site(limits).client() as client:
        answers = [await client.post("/mcp", headers=odd) for _ in range(3)]
        for _ in range(2):
            await client.post("/mcp", headers=BAD)
        after = await client.post("/mcp", headers=odd)

    assert [answer.status_code for answer in (*answers, after)] == [404, 404, 404, 429]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/", {}),
        ("GET", "/static/style.css", {}),
        ("GET", "/nothing", {}),
        ("GET", "/.well-known/ai-catalog.json", {}),
        ("GET", "/mcp/server-card", {}),
        ("GET", "/mcp/server-card", {"Authorization": "Bearer junk"}),
        ("POST", "/mcp", {}),
    ],
)
async def test_what_anyone_may_ask_for_is_limited_for_each_address(
    clock: Clock, method: str, path: str, headers: dict[str, str]
) -> None:
    site = Site(Limits(Rates(other=3, failure=100), monotonic=clock))
    async with site.client() as client, site.client("198.51.100.7") as other:
        answers = [(await client.request(method, path, headers=headers)).status_code for _ in range(5)]
        elsewhere = (await other.request(method, path, headers=headers)).status_code
        known = (await client.post("/mcp", headers=GOOD)).status_code
        clock.now += 61
        later = (await client.request(method, path, headers=headers)).status_code

    assert 429 not in answers[:3]
    assert answers[3:] == [429, 429]
    assert 429 not in (elsewhere, known, later)


@pytest.mark.parametrize("path", ["/token", "/revoke", "/register", "/healthz", "/readyz"])
async def test_token_endpoints_and_health_checks_are_not_counted_for_their_address(
    clock: Clock, path: str
) -> None:
    async with Site(Limits(Rates(other=1), monotonic=clock)).client() as client:
        assert {(await client.get(path)).status_code for _ in range(5)} == {200}

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nextcloud_mcp_server.web.query import MOST_PARAMETERS, BoundedQuery, names_parameter


async def echo(request: Request) -> Response:
    return PlainTextResponse(request.url.query)


async def left_of(query: str) -> str:
    app = BoundedQuery(Starlette(routes=[Route("/", echo)]))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://mcp") as http:
        return (await http.get(f"/?{query}")).text


async def test_a_query_of_as_many_parameters_as_anyone_needs_is_left_as_it_is() -> None:
    query = "&".join(f"a{number}=%20" for number in range(MOST_PARAMETERS))

    assert await left_of(query) == query


async def test_of_a_query_of_more_parameters_only_the_codes_are_left() -> None:
    others = "&".join("a=b" for _ in range(MOST_PARAMETERS))

    assert await left_of(f"state=x&code=one&{others}&code=two&encode=3") == "code=one&code=two"
    assert (await left_of("&".join(["code=c"] * 1_000))).count("code=c") == MOST_PARAMETERS


@pytest.mark.parametrize(
    ("query", "found"),
    [
        *((b"access_token=x", True), (b"a=b&access_token", True), (b"access%5ftoken=x", True)),
        *((b"%61%63%63%65%73%73%5f%74%6f%6b%65%6e=x", True), (b"a=access_token", False), (b"", False)),
        *((b"access_tokens=x", False), (b"xaccess_token=x", False), (b"%61" * 20_000, False)),
    ],
)
def test_a_parameter_is_found_by_its_name_in_any_spelling(query: bytes, *, found: bool) -> None:
    assert names_parameter(query, "access_token") == found

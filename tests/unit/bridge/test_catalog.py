import pytest

from nextcloud_mcp_server.bridge.catalog import Catalog, expanded_template
from nextcloud_mcp_server.bridge.connection import connect
from nextcloud_mcp_server.bridge.link import Handlers
from nextcloud_mcp_server.errors import InvalidInput
from tests.unit.bridge.conftest import MakeServer

pytestmark = pytest.mark.anyio

ISSUES = "github://repos/{owner}/{repo}/issues/{id}"


def test_a_template_is_filled_in_by_the_order_of_its_variables() -> None:
    assert expanded_template(ISSUES, ["o", "r/../x", "7"]) == "github://repos/o/r%2F..%2Fx/issues/7"


@pytest.mark.parametrize("values", [[], ["o", "r"], ["o", "r", "7", "8"]])
def test_a_template_takes_as_many_values_as_it_has_variables(values: list[str]) -> None:
    with pytest.raises(InvalidInput, match=r"takes 3 values \(owner, repo, id\)"):
        expanded_template(ISSUES, values)


def test_what_is_no_template_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is not a template"):
        expanded_template("a://{", ["x"])


@pytest.mark.process
async def test_resources_are_listed_once_until_the_server_says_that_they_changed(
    stdio_server: MakeServer,
) -> None:
    catalog = Catalog()

    async with connect(stdio_server(), Handlers(notification=catalog.notified)) as connection:
        first = await catalog.resources(connection)
        second = await catalog.resources(connection)
        await connection.call_tool("change")
        third = await catalog.resources(connection)

    assert [one.name for one in first] == ["text", "blob"]
    assert second is first
    assert [one.name for one in third] == ["text", "blob", "new"]


@pytest.mark.process
async def test_a_resource_is_found_by_its_uri_its_name_or_a_template(stdio_server: MakeServer) -> None:
    catalog = Catalog()

    async with connect(stdio_server()) as connection:
        found = [
            await catalog.uri(connection, name, values)
            for name, values in [
                ("any://thing", []),
                ("text", []),
                ("repository", ["o", "r"]),
                ("test://repos/{owner}/{repo}", ["o", "r"]),
                ("unlisted://{x}", ["y"]),
                ("unknown", []),
            ]
        ]
        with pytest.raises(InvalidInput, match="no template"):
            await catalog.uri(connection, "text", ["value"])

    assert found == [
        "any://thing",
        "test://text",
        "test://repos/o/r",
        "test://repos/o/r",
        "unlisted://y",
        "unknown",
    ]

import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.collectives.client import CollectivesClient
from tests.dav_fakes import Network, http_over, network, recorded


def client(*answers: httpx2.Response) -> tuple[CollectivesClient, Network]:
    net = network(*answers)
    return CollectivesClient(http_over(net)), net


async def test_pages_are_listed_with_the_file_that_holds_their_text() -> None:
    collectives, _ = client(recorded("collectives/pages"), recorded("collectives/list"))

    [page] = await collectives.pages("1")

    assert (page.id, page.title, page.parent_id) == ("365", "Landing page", None)
    assert page.path == ".Collectives/Rec collective/Readme.md"
    assert await collectives.list_collectives() == []


async def test_a_page_that_failed_to_be_made_is_looked_for_before_it_is_tried_again() -> None:
    collectives, net = client(recorded("collectives/page_create_500"))

    with pytest.raises(errors.ServerFault, match="may be there all the same"):
        await collectives.create("1", "365", "Sub page")

    assert net.methods == ["POST"]


async def test_a_page_below_the_first_one_is_made_by_the_id_of_that() -> None:
    collectives, net = client(recorded("collectives/pages"), recorded("collectives/page_create_500"))

    with pytest.raises(errors.ServerFault):
        await collectives.create("1", "0", "Sub page")

    assert net.seen[-1].url.path.endswith("/collectives/1/pages/365")


async def test_where_there_is_no_such_app_that_is_one_of_the_reasons() -> None:
    collectives, _ = client(httpx2.Response(404))

    with pytest.raises(errors.NotFound, match="or Collectives is not installed"):
        await collectives.list_collectives()

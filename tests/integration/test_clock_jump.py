"""The clock of the server is a day wrong for a while; those of Nextcloud and the identity provider are right."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import Message
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.server.http_app import build_http_app
from nextcloud_mcp_server.server.public_urls import PublicUrls
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings import environment
from tests.integration.personal_app import Clock, served
from tests.load_cluster import LIST, LoadCluster, note_of, open_cluster

DAY = timedelta(days=1)


@asynccontextmanager
async def serving(cluster: LoadCluster, clock: Clock) -> AsyncGenerator[None]:
    config = environment.load(**cluster.settings)
    site = PublicUrls.of(config, "127.0.0.1", cluster.port)
    app, _ = build_http_app(config, site, overrides=Overrides(clock=clock))
    with socket.create_server(("127.0.0.1", cluster.port)) as listener:
        async with served(app, listener):
            yield


async def call(cluster: LoadCluster, name: str) -> Message:
    async with cluster.asking(name) as client:
        return (await client.request("tools/call", {"name": LIST, "arguments": {}}))["result"]


async def refused(cluster: LoadCluster, name: str) -> int:
    async with cluster.asking(name) as client:
        status, _ = await client.refused("tools/call", {"name": LIST, "arguments": {}})
    return status


async def consent(name: str, asked: Message) -> int:
    async with httpx2.AsyncClient(timeout=60) as browser:
        link = asked["inputRequests"]["provision"]["params"]["url"]
        return (await Person(name, name, browser=browser).consent(link)).status


def titles(result: Message) -> list[str]:
    return [note["title"] for note in result["structuredContent"]["notes"]]


@pytest.mark.parametrize("wrong", [DAY, -DAY], ids=["ahead", "behind"])
async def test_once_the_clock_is_right_again_everything_works_without_a_restart(
    tmp_path: Path, wrong: timedelta
) -> None:
    clock = Clock()
    async with open_cluster(tmp_path) as cluster, serving(cluster, clock):
        cluster.move_in("ann", "ben")
        await consent("ann", await call(cluster, "ann"))
        before = await call(cluster, "ben")

        clock.ahead = wrong
        meanwhile = await refused(cluster, "ann")
        page = await consent("ben", before)
        clock.ahead = timedelta()
        ann, asked = await call(cluster, "ann"), await call(cluster, "ben")
        if asked.get("resultType") == "input_required":
            await consent("ben", asked)
        ben = await call(cluster, "ben")

    assert meanwhile == 401
    assert page < 500
    assert (titles(ann), titles(ben)) == ([note_of("ann")], [note_of("ben")])

"""Mode `builtin`: what strangers may have the server do must cost no one else anything."""

import socket
import threading

import anyio
import pytest

from nextcloud_mcp_server.auth.builtin.documents import MOST_PER_ADDRESS
from nextcloud_mcp_server.auth.builtin.pinned import MOST_LOOKUPS, resolve
from nextcloud_mcp_server.errors import OAuthRefusal, TooManyRequests
from tests.clients_fixtures import ClientsFixture, Said


async def test_names_whose_servers_are_silent_keep_no_other_name_from_being_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent, refused = threading.Event(), anyio.Semaphore(0)

    def look_up(host: bytes | str | None, *_: object, **__: object) -> list[object]:
        if "cloud" in str(host):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("198.51.100.7", 443))]
        silent.wait(30)
        raise socket.gaierror("no such name")

    async def look_up_in_vain(number: int) -> None:
        with pytest.raises(OSError, match=r"no such name|too many names") as caught:
            await resolve(f"host{number}.silent.test")
        if "too many" in str(caught.value):
            refused.release()

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with anyio.create_task_group() as group:
        for number in range(2 * MOST_LOOKUPS):
            group.start_soon(look_up_in_vain, number)
        with anyio.fail_after(60):
            for _ in range(MOST_LOOKUPS):
                await refused.acquire()
            # As for each connection to Nextcloud.
            assert await anyio.getaddrinfo("cloud.test", 443)
        silent.set()


async def test_a_client_that_asks_for_many_documents_uses_up_only_its_own_share() -> None:
    made = ClientsFixture()

    async def ask(number: int, sender: str) -> None:
        url = f"https://host{number}.example.org/client"
        made.internet.answers[url] = Said(404)
        await made.documents.get(url, sender=sender)

    for number in range(MOST_PER_ADDRESS):
        with pytest.raises(OAuthRefusal):
            # A household has as many of these as it likes.
            await ask(number, f"2001:db8::{number:x}")

    with pytest.raises(TooManyRequests):
        await ask(MOST_PER_ADDRESS, "2001:db8::ffff")
    with pytest.raises(OAuthRefusal, match="no document"):
        await ask(MOST_PER_ADDRESS, "2001:db8:0:1::1")

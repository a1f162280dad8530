"""Documents of clients through the operator's HTTP proxy."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin import document_source
from nextcloud_mcp_server.auth.builtin.document_source import DocumentUnavailable
from nextcloud_mcp_server.auth.builtin.pinned import AddressRefused, open_outside
from nextcloud_mcp_server.errors import DocumentUnreachable

URL = "https://app.example.org/client.json"
PUBLIC = "93.184.216.34"

Resolve = Callable[[str], Awaitable[Sequence[str]]]


@dataclass
class Proxy:
    """A proxy that notes what it is asked for, and lets nothing through."""

    url: str = ""
    asked: list[str] = field(default_factory=list[str])

    async def answer(self, stream: ByteStream) -> None:
        async with stream:
            self.asked.append((await stream.receive()).partition(b"\r\n")[0].decode())
            await stream.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@pytest.fixture
async def proxy() -> AsyncGenerator[Proxy]:
    async with listening() as made:
        yield made


@asynccontextmanager
async def listening() -> AsyncGenerator[Proxy]:
    made = Proxy()
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as tcp,
        anyio.create_task_group() as tasks,
    ):
        made.url = f"http://127.0.0.1:{tcp.extra(SocketAttribute.local_port)}"
        tasks.start_soon(tcp.serve, made.answer)
        yield made
        tasks.cancel_scope.cancel()


def found(*addresses: str) -> Resolve:
    async def resolve(_: str) -> Sequence[str]:
        return addresses

    return resolve


async def unknown(_: str) -> Sequence[str]:
    raise OSError


async def silent(_: str) -> Sequence[str]:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize("resolve", [found(PUBLIC), found(), unknown, silent])
async def test_the_proxy_is_asked_for_the_name_whether_it_is_known_here_or_not(
    proxy: Proxy, resolve: Resolve
) -> None:
    async with open_outside(user_agent="test", resolve=resolve, proxy=SecretStr(proxy.url)) as overrides:
        with pytest.raises(DocumentUnavailable) as caught:
            await document_source.fetch(overrides, URL)

    assert proxy.asked == ["CONNECT app.example.org:443 HTTP/1.1"]
    assert caught.value.reason is DocumentUnreachable
    assert caught.value.detail == "cannot be reached: the proxy does not let it through"


@pytest.mark.parametrize("addresses", [["10.0.0.1"], [PUBLIC, "127.0.0.1"], ["fd00::1"]])
async def test_a_name_that_leads_into_the_own_network_is_not_given_to_the_proxy(
    proxy: Proxy, addresses: list[str]
) -> None:
    async with open_outside(
        user_agent="test", resolve=found(*addresses), proxy=SecretStr(proxy.url)
    ) as overrides:
        with pytest.raises(AddressRefused):
            await overrides.get(URL)

    assert proxy.asked == []


@pytest.mark.parametrize("url", ["http://app.example.org/", "https://app.example.org:8443/"])
async def test_only_https_on_its_own_port_is_asked_of_the_proxy(proxy: Proxy, url: str) -> None:
    async with open_outside(user_agent="test", resolve=unknown, proxy=SecretStr(proxy.url)) as overrides:
        with pytest.raises(AddressRefused):
            await overrides.get(url)

    assert proxy.asked == []


async def test_without_the_setting_a_proxy_of_the_environment_is_not_asked(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind it no address could be checked, and the operator has not agreed to that."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)

    async with open_outside(user_agent="test", resolve=found("192.0.2.1")) as overrides:
        with pytest.raises(AddressRefused):
            await overrides.get(URL)

    assert proxy.asked == []


async def test_without_a_proxy_a_name_that_is_not_known_here_is_said_to_be_so() -> None:
    async with open_outside(user_agent="test", resolve=unknown) as overrides:
        with pytest.raises(DocumentUnavailable) as caught:
            await document_source.fetch(overrides, URL)

    assert caught.value.detail == "cannot be reached: the name of its host is not known here"

"""The reverse proxies of docs/operate/proxies.md, as they stand there, in front of a server for many people."""

import json
import re
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from annotated_types import Le

from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.settings.environment import Settings
from tests.integration.oidc_app import EVERYTHING, OidcApp
from tests.integration.personal_app import link_in
from tests.integration.reverse_proxies import (
    NAME,
    PROXIES,
    Place,
    ThroughProxy,
    environment_of,
    program,
    running,
    snippet,
    write_certificate,
)
from tests.published_schemas import read_yaml

pytestmark = pytest.mark.process

URL = f"https://{NAME}"
LIST: dict[str, Any] = {"name": "nc_notes_list_notes", "arguments": {}}
#: Of docs/operate/limits.md, as for other pages: one address may open so many callbacks in a minute.
CALLBACKS = 60


@dataclass(frozen=True)
class Front:
    """A server behind a proxy."""

    app: OidcApp
    place: Place

    @asynccontextmanager
    async def client(
        self, *, source: str = "127.0.0.1", **headers: str
    ) -> AsyncGenerator[httpx2.AsyncClient]:
        """Connect through the proxy, and directly to everything else."""
        mounts = {f"all://{NAME}": ThroughProxy(self.place, source=source)}
        async with httpx2.AsyncClient(headers=headers, mounts=mounts, timeout=60) as http:
            yield http


@pytest.fixture(params=PROXIES)
async def front(request: pytest.FixtureRequest, oidc_app: OidcApp, tmp_path: Path) -> AsyncGenerator[Front]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path / "proxy"
    folder.mkdir()
    place = Place(folder, port, oidc_app.listener.getsockname()[1])
    oidc_app.issuer.add_client("front", redirect_uris=[f"{URL}/oauth/callback/sign-in"], secret="secret")
    known = oidc_app.sandbox.state.new_oauth_client("Front", f"{URL}/oauth/callback/nextcloud")
    await oidc_app.restart(
        nextcloud_mcp_server_url=URL,
        trusted_proxies=("127.0.0.1",),
        oidc_client_id="front",
        oidc_client_secret="secret",
        nextcloud_oauth_client_id=known.client_id,
        nextcloud_oauth_client_secret=known.client_secret,
    )
    async with running(request.param, place):
        yield Front(oidc_app, place)


async def test_a_client_is_told_the_public_addresses(front: Front) -> None:
    async with front.client() as http:
        challenged = await http.post(f"{URL}/mcp", json={})
        metadata = await http.get(f"{URL}/.well-known/oauth-protected-resource/mcp")

    assert challenged.status_code == 401
    assert f'resource_metadata="{URL}/.well-known/' in challenged.headers["WWW-Authenticate"]
    assert metadata.json()["resource"] == f"{URL}/mcp"


async def test_what_a_held_call_tells_arrives_while_it_is_held(front: Front) -> None:
    token = front.app.issuer.access_token(
        "alice", audience=f"{URL}/mcp", client_id="assistant", scope=EVERYTHING
    )
    async with front.client(Authorization=f"Bearer {token}") as http, front.client() as browser:
        alice = Person("alice", "alice", browser=browser)
        client = HandshakeClient(http, f"{URL}/mcp", capabilities={})
        await client.open()
        told = await client.request("tools/call", LIST)
        link = link_in(told["result"]["content"][0]["text"])
        # The consent follows on the first progress: a proxy that gathers an answer first would wait for ever.
        seen: list[dict[str, Any]] = []

        def consent_once(notice: dict[str, Any]) -> None:
            if not seen:
                front.app.consent_request(alice.consent, link)
            seen.append(notice)

        client.on_notice = consent_once
        answer = await client.request("tools/call", {**LIST, "_meta": {"progressToken": "held"}})

    assert link.startswith(f"{URL}/")
    assert {notice["method"] for notice in seen} == {"notifications/progress"}
    assert "Shopping list" in str(answer["result"]["structuredContent"])


async def test_each_address_has_its_own_limit_and_cannot_name_another(front: Front) -> None:
    url = f"{URL}/oauth/callback/sign-in?code=look-for-me&state=nothing"
    async with front.client(source="127.0.0.5") as one, front.client(source="127.0.0.6") as other:
        for number in range(10 * CALLBACKS):
            # As if it came from somewhere else each time.
            answer = await one.get(url, headers={"X-Forwarded-For": f"203.0.113.{number % 256}"})
            if "Retry-After" in answer.headers:
                break
        else:
            pytest.fail("no limit was met: the server takes each request for one of another address")
        fresh = await other.get(url)

    assert number >= CALLBACKS
    assert "Retry-After" not in fresh.headers


async def test_no_code_is_in_a_log_of_the_proxy_while_the_server_runs_or_is_down(front: Front) -> None:
    url = f"{URL}/oauth/callback/sign-in?code=look-for-me&state=look-for-me"
    async with front.client() as http:
        await http.get(url)
        await http.get(f"{URL}/healthz?harmless=query")
        await front.app.stop()
        front.app.listener.close()
        down = await http.get(url)

    assert down.status_code == 502
    assert "/oauth/callback/sign-in" in front.place.logged()
    assert "look-for-me" not in front.place.logged()


async def test_an_address_of_32_kilobytes_reaches_the_server(front: Front) -> None:
    async with front.client() as http:
        answer = await http.get(f"{URL}/oauth/callback/sign-in?state={'x' * 30_000}")

    assert answer.status_code not in {414, 431, 502}
    assert "nginx" not in answer.text


@pytest.mark.parametrize("second", [None, 3], ids=["one server", "two replicas"])
@pytest.mark.parametrize("proxy", PROXIES)
def test_a_program_finds_nothing_wrong_with_its_configuration(
    proxy: str, second: int | None, tmp_path: Path
) -> None:
    place = Place(tmp_path, 1, 2, second)
    write_certificate(place)
    command = PROXIES[proxy](place)
    check = {"nginx": [*command, "-t"], "caddy": [command[0], "validate", *command[2:]]}[proxy]

    result = subprocess.run(check, capture_output=True, text=True, check=False, env=environment_of(tmp_path))

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["docker-compose.builtin.yml", "docker-compose.existing.yml"])
def test_caddy_finds_nothing_wrong_with_what_a_compose_file_gives_it(name: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    text = read_yaml(root / name)["configs"]["caddyfile"]["content"]
    file = tmp_path / "Caddyfile"
    for variable, value in {
        "NEXTCLOUD_PUBLIC_URL": "https://cloud.example.org",
        "NEXTCLOUD_MCP_SERVER_URL": URL,
    }.items():
        text = text.replace(f"${{{variable}}}", value)
    file.write_text(text, encoding="utf-8")

    result = subprocess.run(
        [program("caddy"), "adapt", "--adapter", "caddyfile", "--config", str(file)],
        capture_output=True,
        text=True,
        check=False,
        env=environment_of(tmp_path),
    )
    routes = json.loads(result.stdout)["apps"]["http"]["servers"]["srv0"]["routes"]

    assert result.returncode == 0, result.stderr
    assert {host for route in routes for host in route["match"][0]["host"]} >= {NAME}


def test_nginx_waits_longer_than_a_call_is_held_at_most() -> None:
    (minutes,) = re.findall(r"proxy_read_timeout (\d+)m;", snippet("nginx"))
    (longest,) = [one.le for one in Settings.model_fields["hold_seconds"].metadata if isinstance(one, Le)]

    assert 60 * int(minutes) > cast("int", longest)


def test_the_configuration_of_traefik_for_replicas_is_at_least_yaml_of_the_same_form() -> None:
    one, two = read_yaml(snippet("Traefik")), read_yaml(snippet("Traefik", "replicas"))

    balancer = two["services"]["mcp"]["loadBalancer"]
    assert (
        balancer["responseForwarding"] == one["http"]["services"]["mcp"]["loadBalancer"]["responseForwarding"]
    )
    assert len(balancer["servers"]) == 2


@pytest.mark.parametrize("program_name", ["Traefik", "Cloudflare Tunnel"])
def test_a_configuration_that_no_program_here_reads_is_at_least_yaml_for_the_same_address(
    program_name: str,
) -> None:
    document = read_yaml(snippet(program_name))

    assert NAME in str(document)
    assert ":8765" in str(document)

"""Prints the report of `doctor`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial

import anyio
import typer

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.commands.console import by_option
from nextcloud_mcp_server.commands.doctor.builtin import look_at_discovery
from nextcloud_mcp_server.commands.doctor.checks import (
    Finding,
    Verdict,
    look_at_database,
    look_here,
    look_there,
)
from nextcloud_mcp_server.commands.doctor.client_documents import look_at_documents
from nextcloud_mcp_server.commands.doctor.connections import look_at_connections
from nextcloud_mcp_server.commands.doctor.login_flow import look_at_login_flow, uses_login_flow
from nextcloud_mcp_server.commands.doctor.oidc import look_at_grants, look_at_own_address, look_at_sign_in
from nextcloud_mcp_server.commands.doctor.overview import look_at_overview
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.program import user_agent
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.server.app import with_nextcloud
from nextcloud_mcp_server.server.mcp_server import left_out_by_old_names, select
from nextcloud_mcp_server.server.modes.builtin import open_documents
from nextcloud_mcp_server.server.services import Overrides
from nextcloud_mcp_server.settings.environment import Settings

_COLOURS = {Verdict.OK: typer.colors.GREEN, Verdict.WARN: typer.colors.YELLOW, Verdict.FAIL: typer.colors.RED}


def check(settings: Settings) -> int:
    """Print every finding and return the exit code."""
    logs.set_up("error")
    # Raises for settings that would prevent the start of the server.
    select(settings.enabled_toolsets, exclude=settings.exclude_tools, read_only=settings.read_only)
    old_names = left_out_by_old_names(settings.exclude_tools)
    failed = report(Finding(Verdict.WARN, "settings", sentence) for sentence in old_names)
    failed |= report(look_here(settings))
    failed |= report([anyio.run(look_at_database, settings)])
    if settings.multi_user:
        failed |= report(anyio.run(partial(look_at_overview, settings, clock=_now)))
    if settings.sandbox:
        failed |= report(anyio.run(_ask_sandbox, settings))
    elif settings.nextcloud_host is None:
        missing = "none is set: use --nextcloud https://cloud.example.org or NEXTCLOUD_HOST."
        failed |= report([Finding(Verdict.FAIL, "Nextcloud", missing)])
    else:
        failed |= report(anyio.run(_ask, settings, settings.nextcloud_host))
    return int(failed)


def report(findings: Iterable[Finding]) -> bool:
    """Print findings, in colour at a terminal; return whether a check failed."""
    failed = False
    for finding in findings:
        failed |= finding.verdict is Verdict.FAIL
        # typer removes the colours where the output is not a terminal.
        mark = typer.style(f"{finding.verdict:<4}", fg=_COLOURS[finding.verdict])
        typer.echo(by_option(f"{mark}  {finding.topic}: {finding.text}"))
    return failed


def _now() -> datetime:
    return datetime.now(UTC)


async def _ask_sandbox(settings: Settings) -> list[Finding]:
    async with with_nextcloud(settings) as own:
        return await _ask(own, own.require_nextcloud())


async def _ask(settings: Settings, address: str) -> list[Finding]:
    url = NextcloudUrl.parse(address)
    bundle = str(settings.nextcloud_ca_bundle) if settings.nextcloud_ca_bundle else None
    public_url = NextcloudUrl.parse(settings.nextcloud_public_url) if settings.nextcloud_public_url else None
    multi_user = settings.multi_user
    async with open_pool(ca_bundle=bundle, user_agent=user_agent()) as pool:
        nextcloud = Nextcloud(url, pool, public_url=public_url)
        found = await look_there(
            nextcloud,
            pool,
            base=str(url),
            clock=_now,
            multi_user=multi_user,
            host=None if public_url is None else public_url.netloc,
        )
        if Verdict.FAIL not in {finding.verdict for finding in found}:
            found += await look_at_connections(settings, nextcloud, url=str(url), clock=_now)
            if uses_login_flow(settings):
                found.append(await look_at_login_flow(nextcloud))
        if multi_user:
            if settings.mode == "oidc":
                found += await look_at_sign_in(settings, pool)
            found += await look_at_grants(settings, pool)
            found.append(await look_at_own_address(settings, pool))
            if settings.mode == "builtin":
                found += await look_at_discovery(settings, pool)
                found.append(await _documents(settings))
        return found


async def _documents(settings: Settings) -> Finding:
    async with open_documents(settings, Overrides()) as client:
        return await look_at_documents(settings, client)

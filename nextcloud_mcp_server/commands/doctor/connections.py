"""Tries each stored connection once, and the app password of the settings, without changing anything."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nextcloud_mcp_server.auth.accounts import opening
from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.errors import CredentialRejected, NextcloudError, NextcloudMcpError
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.server.database_file import stored_in
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION
from nextcloud_mcp_server.storage.records import Grant

#: Nextcloud counts each refusal against this server's address, and after ten refuses valid credentials as well.
_MOST_REFUSALS = 3
_TOPIC = "connections"


@dataclass(slots=True)
class _Tried:
    working: int = 0
    refused: list[str] = field(default_factory=list[str])
    untried: int = 0
    trouble: str = ""


async def look_at_connections(
    settings: Settings, nextcloud: Nextcloud, *, url: str, clock: Callable[[], datetime]
) -> list[Finding]:
    """Try the credentials of this Nextcloud; those of another one are never sent there."""
    found = await _of_settings(settings, nextcloud)
    try:
        if (await stored_in(settings)).version != SCHEMA_VERSION:
            # Nothing is stored yet, or the next start migrates it; the database has a line of its own.
            return found
        async with open_database(settings) as database:
            by_credential = {grant.credential.id: grant for grant in await database.grants.all()}
            missing = [
                rows.rows
                for rows in await database.key_rotation.counts("credentials")
                if rows.key_id not in database.key_rotation.key_ids
            ]
    except NextcloudMcpError:
        return found
    grants = list(by_credential.values())
    elsewhere = sum(grant.account.nextcloud_url != url for grant in grants)
    tried = await _try(nextcloud, _usable(grants, url, clock()))
    return [*found, *_findings(tried, elsewhere=elsewhere, missing=sum(missing))]


async def _of_settings(settings: Settings, nextcloud: Nextcloud) -> list[Finding]:
    if settings.operator_credential is None:
        return []
    name, secret = settings.operator_credential
    try:
        user = await nextcloud.whoami(BasicCredential(name, secret))
    except CredentialRejected:
        advice = "make a new one in Nextcloud (Settings → Security) and set it."
        return [
            Finding(Verdict.FAIL, _TOPIC, f"Nextcloud refuses NEXTCLOUD_APP_PASSWORD of {name}: {advice}")
        ]
    except NextcloudError as error:
        return [Finding(Verdict.FAIL, _TOPIC, str(error))]
    return [Finding(Verdict.OK, _TOPIC, f"NEXTCLOUD_APP_PASSWORD works for {user.uid}")]


def _usable(grants: Sequence[Grant], url: str, now: datetime) -> list[tuple[Grant, bool]]:
    """Return the grants of this Nextcloud, and whether each can be tried without a token refresh."""
    return [
        (grant, grant.credential.expires_at is None or now < grant.credential.expires_at)
        for grant in grants
        if grant.account.nextcloud_url == url and not grant.credential.needs_reauth
    ]


async def _try(nextcloud: Nextcloud, grants: Sequence[tuple[Grant, bool]]) -> _Tried:
    tried = _Tried()
    for grant, is_valid in grants:
        if not is_valid or len(tried.refused) == _MOST_REFUSALS or tried.trouble:
            tried.untried += 1
            continue
        try:
            await nextcloud.whoami(opening(grant.credential))
        except CredentialRejected:
            tried.refused.append(grant.account.uid)
        except NextcloudError as error:
            tried.trouble = str(error)
        else:
            tried.working += 1
    return tried


def _findings(tried: _Tried, *, elsewhere: int, missing: int) -> Iterator[Finding]:
    if tried.working:
        yield Finding(Verdict.OK, _TOPIC, f"{tried.working} {'works' if tried.working == 1 else 'work'}")
    for uid in tried.refused:
        yield Finding(
            Verdict.WARN if tried.working else Verdict.FAIL,
            _TOPIC,
            f"Nextcloud refuses the stored access of {uid}: the next call asks for consent again.",
        )
    if tried.trouble:
        yield Finding(Verdict.FAIL, _TOPIC, tried.trouble)
    if tried.untried:
        yield Finding(
            Verdict.OK,
            _TOPIC,
            f"{tried.untried} were not tried: their token is renewed when it is used, or too many were refused",
        )
    if elsewhere:
        yield Finding(Verdict.OK, _TOPIC, f"{elsewhere} are of another Nextcloud, and were not tried")
    if missing:
        yield Finding(
            Verdict.WARN,
            _TOPIC,
            f"{missing} do not open, because their key is missing: put it back, or these users connect again.",
        )

"""Checks everything that a working setup needs, and says what to do about errors."""

import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Protocol

import httpx2

from nextcloud_mcp_server.documents import isolation_check
from nextcloud_mcp_server.errors import ConfigurationError, NextcloudError, NextcloudMcpError, TlsFailed
from nextcloud_mcp_server.nextcloud import body, releases
from nextcloud_mcp_server.server.database_file import (
    database_file,
    refuse_unusable,
    refuse_unwritable,
    stored_in,
)
from nextcloud_mcp_server.server.measuring import refuse_missing_library
from nextcloud_mcp_server.settings.checks import LOOPBACK_HOSTS
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.crypto import KeyRing, load_or_create_key_file

_CLOCK_SKEW_SECONDS = 30
#: Nextcloud's longest delay; from here on it answers 429 to every login from this server's address.
_THROTTLED_MILLISECONDS = 25_000
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_DISTRIBUTION = "nextcloud-mcp-server"
_PACKAGE = "nextcloud_mcp_server"


class Verdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `text` ends in what to do unless the check passed."""

    verdict: Verdict
    topic: str
    text: str


def why_silent(error: Exception, url: str, otherwise: str) -> str:
    """Say why this server's own address gave no answer: its certificate, or else the given sentence."""
    if "CERTIFICATE_VERIFY_FAILED" not in str(error):
        return otherwise
    return (
        f"the certificate of {url} is not trusted here. If it comes from an authority of your own, set "
        "NEXTCLOUD_CA_BUNDLE to its PEM file and give the authority to the users' devices; else look at the "
        "certificate of the reverse proxy."
    )


class ServerInfo(Protocol):
    """What a Nextcloud reports about itself."""

    @property
    def version(self) -> str:
        """The version, such as `32.0.1`."""
        ...

    @property
    def maintenance(self) -> bool:
        """Whether it is in maintenance mode."""
        ...


class Nextcloud(Protocol):
    """The Nextcloud to check."""

    async def server_info(self) -> ServerInfo:
        """Fetch its `status.php`; raises unless it is a usable Nextcloud."""
        ...


def look_here(settings: Settings) -> Iterator[Finding]:
    """Check what needs no network: settings, files, packages."""
    for sentence in settings.warnings:
        yield Finding(Verdict.WARN, "settings", sentence)
    if not settings.warnings:
        yield Finding(Verdict.OK, "settings", "nothing unknown, nothing unsafe")
    yield from _packages()
    yield _data_folder(settings)
    yield _keys(settings)
    yield from _secret_files(settings)
    yield from _metrics(settings)
    yield _document_reader()


async def look_at_database(settings: Settings) -> Finding:
    """Check that the database can be read, without changing it."""
    shown = database_file(settings) or "PostgreSQL"
    try:
        stored = await stored_in(settings)
        refuse_unusable(settings, stored)
    except (NextcloudMcpError, sqlite3.Error) as error:
        return Finding(Verdict.FAIL, "database", str(error))
    if stored.version is None:
        return Finding(Verdict.OK, "database", f"{shown} is set up at first use")
    return Finding(Verdict.OK, "database", f"{shown}, schema {stored.version}, its key is there")


async def look_there(
    nextcloud: Nextcloud,
    pool: httpx2.AsyncClient,
    *,
    base: str,
    clock: Callable[[], datetime],
    multi_user: bool = False,
    host: str | None = None,
) -> list[Finding]:
    """Check the Nextcloud: its type and version, a secure connection, and that it accepts logins.

    `multi_user`: all users share this server's address, so that one of them can get all blocked. `host` is the name
    under which Nextcloud is known, where `base` has another.
    """
    try:
        info = await nextcloud.server_info()
    except TlsFailed as error:
        return [Finding(Verdict.FAIL, "TLS", f"{error} (The address is {base}.)")]
    except NextcloudError as error:
        return [Finding(Verdict.FAIL, "Nextcloud", f"{error} (The address is {base}.)")]
    found = [
        Finding(Verdict.OK, "Nextcloud", f"{base} is a Nextcloud {info.version}"),
        *_support(info.version, clock()),
    ]
    if info.maintenance:
        found.append(
            Finding(
                Verdict.FAIL,
                "Nextcloud",
                "it is in maintenance mode: wait, or ask its administrator to end it.",
            )
        )
    found.append(_tls(base))
    try:
        headers = {} if host is None else {"Host": host}
        status = await body.look(pool, "GET", f"{base}/status.php", headers=headers)
        found.append(_clock(status, clock()))
        found.append(_pretty(await body.look(pool, "GET", f"{base}/login", headers=headers)))
        capabilities = f"{base}/ocs/v2.php/cloud/capabilities?format=json"
        answer = await body.look(pool, "GET", capabilities, headers={"OCS-APIRequest": "true", **headers})
        found.append(_throttling(answer, multi_user=multi_user))
    except httpx2.HTTPError:
        found.append(
            Finding(Verdict.FAIL, "network", "the connection broke off while checking: run doctor again.")
        )
    return found


def _packages() -> Iterator[Finding]:
    ours = Path(__file__).parents[2]
    others = [
        str(Path(entry, _PACKAGE))
        for entry in sys.path
        if Path(entry, _PACKAGE, "__init__.py").is_file() and not Path(entry, _PACKAGE).samefile(ours)
    ]
    if others:
        yield Finding(
            Verdict.WARN,
            "packages",
            f"another {_PACKAGE} lies in {others[0]}: another project has the same name. "
            "Uninstall it, or install this one into an environment of its own.",
        )
    try:
        scripts = [
            script.value
            for script in distribution(_DISTRIBUTION).entry_points.select(group="console_scripts")
        ]
    except PackageNotFoundError:
        scripts = [f"{_PACKAGE}.cli:main"]
    if f"{_PACKAGE}.cli:main" not in scripts:
        yield Finding(
            Verdict.WARN,
            "packages",
            f"the installed {_DISTRIBUTION} is another project of that name: "
            "install this one from its checkout, into an environment of its own.",
        )
    elif not others:
        yield Finding(
            Verdict.OK, "packages", f"this program runs from {ours}, and no other package replaces it"
        )


def _data_folder(settings: Settings) -> Finding:
    path = settings.data_path
    try:
        refuse_unwritable(settings)
    except ConfigurationError as error:
        return Finding(Verdict.FAIL, "data folder", str(error))
    if not path.exists():
        return Finding(Verdict.OK, "data folder", f"{path} is made at first use")
    if _readable_by_others(path):
        return Finding(Verdict.WARN, "data folder", f"others can look into {path}: run chmod 700 {path}")
    return Finding(Verdict.OK, "data folder", str(path))


def _keys(settings: Settings) -> Finding:
    try:
        if settings.token_encryption_keys:
            KeyRing.parse(settings.token_encryption_keys, source=settings.key_source)
            return Finding(Verdict.OK, "keys", f"given by {settings.key_source}")
        if not settings.key_file.exists():
            return Finding(Verdict.OK, "keys", f"{settings.key_file} is made at first use")
        KeyRing.parse(load_or_create_key_file(settings.key_file)[0], source=settings.key_source)
    except NextcloudMcpError as error:
        return Finding(Verdict.FAIL, "keys", str(error))
    if _readable_by_others(settings.key_file):
        return Finding(
            Verdict.WARN, "keys", f"others can read {settings.key_file}: run chmod 600 {settings.key_file}"
        )
    return Finding(Verdict.OK, "keys", str(settings.key_file))


def _secret_files(settings: Settings) -> Iterator[Finding]:
    for name, path in settings.secret_files.items():
        if _readable_by_others(path):
            yield Finding(
                Verdict.WARN, "secrets", f"others can read {path}, which {name} names: run chmod 600 {path}"
            )


def _metrics(settings: Settings) -> Iterator[Finding]:
    if settings.metrics_port is None:
        return
    try:
        refuse_missing_library(settings)
    except ConfigurationError as error:
        yield Finding(Verdict.FAIL, "metrics", str(error))
    else:
        where = f"http://{settings.metrics_host}:{settings.metrics_port}/metrics"
        yield Finding(Verdict.OK, "metrics", f"a server over HTTP serves them at {where}")


def _document_reader() -> Finding:
    """Try in a document worker what a hostile document would try."""
    ways = isolation_check.open_ways()
    if not ways:
        return Finding(
            Verdict.OK,
            "documents",
            "the program that reads PDF and Office files is locked in: it opens no file, connection or process",
        )
    return Finding(
        Verdict.WARN,
        "documents",
        f"a document that takes over its reader could {', '.join(ways)}: this system lacks the isolation of "
        "Linux 6.12. Run the server on such a kernel, or in a container of its own.",
    )


def _readable_by_others(path: Path) -> bool:
    # Windows reports 0o777 for every file; its permissions are in access control lists.
    return sys.platform != "win32" and bool(path.stat().st_mode & _OTHERS)


def _support(version: str, now: datetime) -> Iterator[Finding]:
    """Report until when the version gets security fixes, and its known defects."""
    ended, end = releases.support_ended(version, now.date()), releases.end_of_support(version)
    if ended is None:
        known = f"this program knows {min(releases.ENDS)} to {max(releases.ENDS)}"
        yield Finding(Verdict.OK, "support", f"{version} is none of the versions it was tested with: {known}")
    elif ended:
        since = "long since" if end is None else f"since the end of {end}"
        yield Finding(
            Verdict.WARN,
            "support",
            f"Nextcloud {version} gets no security fixes any more, {since}: have its administrator update it, one "
            f"major version at a time, to {max(releases.ENDS) - 1} or {max(releases.ENDS)}.",
        )
    else:
        yield Finding(Verdict.OK, "support", f"Nextcloud {version} gets security fixes until {end}")
    if issue := releases.KNOWN_ISSUES.get(releases.major_of(version) or 0):
        yield Finding(Verdict.WARN, "known issue", issue)


def _tls(base: str) -> Finding:
    if base.startswith("https://"):
        return Finding(Verdict.OK, "TLS", "the certificate is accepted")
    if httpx2.URL(base).host in LOOPBACK_HOSTS:
        return Finding(Verdict.OK, "TLS", "not needed on this computer")
    return Finding(
        Verdict.WARN,
        "TLS",
        "not encrypted: others on the network can read along. Use an https:// address.",
    )


def _clock(status: httpx2.Response, now: datetime) -> Finding:
    try:
        skew = abs((parsedate_to_datetime(status.headers.get("date", "")) - now).total_seconds())
    except (TypeError, ValueError):
        return Finding(
            Verdict.WARN, "clock", "Nextcloud does not tell its time: compare both clocks by hand."
        )
    if skew > _CLOCK_SKEW_SECONDS:
        return Finding(
            Verdict.WARN,
            "clock",
            f"{skew:.0f} s apart from Nextcloud's: switch on time synchronisation on both machines.",
        )
    return Finding(Verdict.OK, "clock", "agrees with Nextcloud's")


def _pretty(login: httpx2.Response) -> Finding:
    if login.status_code == HTTPStatus.NOT_FOUND:
        return Finding(
            Verdict.OK, "pretty URLs", "off; this server does not need them (addresses keep their /index.php)"
        )
    return Finding(Verdict.OK, "pretty URLs", "on")


def _throttling(capabilities: httpx2.Response, *, multi_user: bool) -> Finding:
    # Without a login: a failed one would count against this server's address.
    try:
        throttle = capabilities.json()["ocs"]["data"]["capabilities"]["bruteforce"]
        delay, allowed = int(throttle["delay"]), bool(throttle["allow-listed"])
    except (ValueError, TypeError, KeyError):
        return Finding(Verdict.OK, "throttling", "Nextcloud says nothing about it")
    if allowed:
        return Finding(Verdict.OK, "throttling", "our address is on Nextcloud's allow list")
    allow = (
        "have the administrator put our address on the allow list (Administration settings → Security → "
        "Brute-force IP whitelist; 'nextcloud-mcp-server setup nextcloud' does it when it makes the client, or prints "
        "the command), and never that of a proxy or gateway that others come through too."
    )
    advice = f"Wait for 30 minutes, find who logs in from here with a wrong password, or {allow}"
    if delay >= _THROTTLED_MILLISECONDS:
        return Finding(Verdict.FAIL, "throttling", f"Nextcloud refuses all logins from our address. {advice}")
    if delay:
        return Finding(
            Verdict.WARN,
            "throttling",
            f"failed logins from our address slow us by {delay / 1000:g} s. {advice}",
        )
    if multi_user:
        return Finding(
            Verdict.WARN,
            "throttling",
            "the requests of all users come from this server's address, which is not on Nextcloud's allow list, so "
            f"ten failures of one user stop all: {allow}",
        )
    return Finding(Verdict.OK, "throttling", "no failed logins from our address")

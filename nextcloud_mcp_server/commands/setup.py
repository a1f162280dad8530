"""Registers this server at Nextcloud, with an administrator's password that is not stored."""

import getpass
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx2
import typer
from pydantic import SecretStr

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.commands.console import result, say
from nextcloud_mcp_server.errors import ConfigurationError, CredentialRejected, Forbidden, NextcloudError
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.oauth2_admin import (
    MadeClient,
    OAuth2Admin,
    SecurityPage,
    allow_by_hand,
    by_hand,
    registered_redirect,
)
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.settings.environment import Draft

#: The files that `--into` writes: the client's id, and its secret.
FILES = ("nextcloud-client-id", "nextcloud-client-secret")
_PLACE = "Administration settings → Security → OAuth 2.0 clients"
_ALLOW_LIST = "Administration settings → Security → Brute-force IP whitelist (app “Brute-force settings”)"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The registered client, and what the security page showed.

    `allowed`: whether this server's address was added to the allow list; None where that was not tried.
    """

    made: MadeClient
    page: SecurityPage
    own_address: str | None
    allowed: bool | None = None


def setup_nextcloud(
    settings: Draft,
    ask: Callable[[], BasicCredential] | None = None,
    *,
    into: Path | None = None,
    transport: httpx2.AsyncBaseTransport | None = None,
    may_allow: Callable[[str], bool] | None = None,
) -> None:
    """Register an OAuth client and print its settings to stdout, or write them `into` a folder, once.

    `may_allow` asks whether this computer's address is to be added to Nextcloud's allow list.

    Raises:
      ConfigurationError: A setting is missing; or the client exists already and its secret does not; or the folder is
        not writable.
    """
    logs.set_up("error")
    if into is not None and all((into / name).is_file() for name in FILES):
        say(
            f"Registered already: the client's id and secret are in {into}. If Nextcloud no longer knows that client, "
            f"or this server has another address now, delete {' and '.join(FILES)} there and run this again."
        )
        return
    say(
        f"This registers the client “{client_name(settings)}” at {settings.require_nextcloud()}, "
        f"with the redirect URI {settings.grant_callback_url}."
    )
    if into is not None:
        _try_to_write(into)
    credential = (ask or ask_for_credential)()
    outcome = anyio.run(_run, settings, credential, transport, may_allow or ask_to_allow)
    if into is None:
        _print(outcome)
    else:
        _write(outcome, into)
    say(f"\n{about_address(outcome.page, outcome.own_address, allowed=outcome.allowed)}")


def _try_to_write(folder: Path) -> None:
    """Check that the folder is writable; a secret that cannot be stored would be lost."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"Nothing can be written into {folder} ({error.strerror}), so nothing was made: name another folder with "
            "--into."
        ) from None


def _write(outcome: Outcome, folder: Path) -> None:
    texts = (outcome.made.client_id, outcome.made.client_secret.get_secret_value())
    try:
        for name, text in zip(FILES, texts, strict=True):
            _put(folder / name, f"{text}\n")
    except OSError as error:
        # The secret cannot be read again, so printing it is better than losing it.
        _print(outcome)
        raise ConfigurationError(
            f"The client's id and secret could not be written into {folder} ({error.strerror}): keep what is printed "
            "above instead."
        ) from None
    say(
        f"Its id and secret are in {folder}: have the server read them with NEXTCLOUD_OAUTH_CLIENT_ID_FILE and "
        "NEXTCLOUD_OAUTH_CLIENT_SECRET_FILE."
    )


def _put(path: Path, text: str) -> None:
    """Write a file atomically: at the next start a partial secret would be taken for the whole."""
    part = path.with_name(f".{path.name}.part")
    with os.fdopen(
        os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as writing:
        writing.write(text)
    part.replace(path)


def _print(outcome: Outcome) -> None:
    result(f"NEXTCLOUD_OAUTH_CLIENT_ID={outcome.made.client_id}")
    result(f"NEXTCLOUD_OAUTH_CLIENT_SECRET={outcome.made.client_secret.get_secret_value()}")
    say(
        "\nPut these two into this server's environment (the secret is not shown again), then run "
        "'nextcloud-mcp-server doctor'. If you used an app password that you made for this, delete it: personal "
        "settings → Security → Devices & sessions."
    )


def client_name(settings: Draft) -> str:
    """Return a client name with this server's host: Nextcloud deletes a client's tokens by its name."""
    return f"Nextcloud MCP server at {urlsplit(settings.server_url).netloc}"


def ask_for_credential() -> BasicCredential:
    """Ask for the administrator's name and password; never shown, stored or in a command line.

    Raises:
      ConfigurationError: Nothing was typed.
    """
    if sys.stdin.isatty():
        say(
            "Nextcloud 34 and newer want an administrator's own password for this, once. Nextcloud 32 and 33 take an "
            "app password too (personal settings → Security → Devices & sessions), and with two-factor "
            "authentication nothing else. With two-factor authentication on 34 or newer, type an app password "
            "nevertheless: you are told how to add the client by hand."
        )
        name = str(typer.prompt("Administrator's login name", err=True))
        secret = getpass.getpass("Password (not shown): ").strip()
    else:
        name, secret = (sys.stdin.readline().strip() for _ in range(2))
    if not name or not secret:
        raise ConfigurationError(
            "A login name and a password are needed: type them, or send them as two lines to stdin."
        )
    return BasicCredential(name, SecretStr(secret))


def ask_to_allow(address: str) -> bool:
    """Ask whether to add an address to Nextcloud's allow list; False without a terminal."""
    return sys.stdin.isatty() and typer.confirm(
        f"Nextcloud sees this computer as {address}. Put it on Nextcloud's allow list now? Say yes if this server runs "
        "here and no other computer uses that address.",
        default=True,
        err=True,
    )


async def _run(
    settings: Draft,
    credential: BasicCredential,
    transport: httpx2.AsyncBaseTransport | None,
    may_allow: Callable[[str], bool],
) -> Outcome:
    url = NextcloudUrl.parse(settings.require_nextcloud())
    public_url = NextcloudUrl.parse(settings.nextcloud_public_url) if settings.nextcloud_public_url else None
    bundle = str(settings.nextcloud_ca_bundle) if settings.nextcloud_ca_bundle else None
    agent, name = "Nextcloud MCP server (setup)", client_name(settings)
    async with open_pool(ca_bundle=bundle, user_agent=agent, transport=transport) as pool:
        nextcloud = Nextcloud(url, pool, public_url=public_url)
        await nextcloud.server_info()
        try:
            uid = (await nextcloud.whoami(credential)).uid
        except CredentialRejected:
            raise CredentialRejected(
                "Nextcloud does not accept this name and password. Nothing was made; failed logins are counted against "
                "this computer's address, so look twice before you try again. With two-factor authentication "
                f"Nextcloud never takes the password itself: {by_hand(name, settings.grant_callback_url)}"
            ) from None
        admin = OAuth2Admin(pool, url, credential=credential, uid=uid, public_url=public_url)
        try:
            page = await admin.look()
        except Forbidden as error:
            raise Forbidden(await _for_administrator(str(error), settings, pool)) from None
        _refuse_second(settings, page)
        own = await own_address(pool, str(url))
        made = await admin.register(name=name, redirect_uri=settings.grant_callback_url)
        registered = await registered_redirect(pool, url, made.client_id, public_url=public_url)
        if registered != settings.grant_callback_url:
            raise NextcloudError(
                "Nextcloud made the client, but does not answer for it as expected: look for "
                f"“{client_name(settings)}” under {_PLACE}, delete it, and run this again."
            )
        return Outcome(made, page, own, await _allow(admin, page, own, may_allow))


async def _allow(
    admin: OAuth2Admin, page: SecurityPage, own: str | None, may_allow: Callable[[str], bool]
) -> bool | None:
    """Add this computer's address to the allow list if the operator agrees; the client exists already."""
    address = page.our_address
    if page.allow_listed or address is None or address != own or not may_allow(address):
        return None
    try:
        await admin.allow_address(address)
        return (await admin.look()).allow_listed is not False
    except NextcloudError as error:
        say(f"{error}")
        return False


async def _for_administrator(sentence: str, settings: Draft, pool: httpx2.AsyncClient) -> str:
    """Return instructions for Nextcloud's administrator, for an account that lacks the rights."""
    own = await own_address(pool, settings.require_nextcloud())
    steps = f"{sentence} Or {by_hand(client_name(settings), settings.grant_callback_url)}"
    if own is None:
        return f"{steps} And this server's address belongs on the allow list: {_ALLOW_LIST}."
    return (
        f"{steps} And have them run '{allow_by_hand(own)}', if Nextcloud sees this server as {own} and no other "
        "computer uses that address: then it counts no failed logins of it, which would shut out all users here."
    )


def _refuse_second(settings: Draft, page: SecurityPage) -> None:
    name = client_name(settings)
    if page.clients is None:
        say(f"Nextcloud did not tell which clients there are: see that no other “{name}” is under {_PLACE}.")
    elif any(client.name == name for client in page.clients):
        raise ConfigurationError(
            f"A client “{name}” is registered already, and its secret cannot be read again: keep the settings that "
            f"belong to it, or delete it under {_PLACE} (which ends every connection made with it) and run this again."
        )


async def own_address(pool: httpx2.AsyncClient, base: str) -> str | None:
    """Return the source address of connections to Nextcloud from this computer, if it can be determined."""
    try:
        async with pool.stream("GET", f"{base}/status.php") as response:
            stream = response.extensions.get("network_stream")
            local: tuple[str, int] | None = stream.get_extra_info("client_addr") if stream else None
    except httpx2.HTTPError:
        return None
    return local[0] if local else None


def about_address(page: SecurityPage, own: str | None, *, allowed: bool | None = None) -> str:
    """Return which address to add to the allow list and how, and which never to add.

    `allowed` says whether it was added now; None where that was not tried.
    """
    why = (
        "Nextcloud counts failed logins by address, and all users here share this server's: on the allow list, the "
        "wrong password of one user cannot lock out the others."
    )
    if page.allow_listed:
        return f"Nextcloud sees this computer as {page.our_address}, which is on its allow list already."
    if allowed:
        return f"Nextcloud sees this computer as {page.our_address}, which is on its allow list now."
    if page.our_address is None:
        command = (
            "" if own is None else f" (or run '{allow_by_hand(own)}' on Nextcloud's machine, if it is {own})"
        )
        return (
            f"{why} Nextcloud did not say under which address it sees this computer (the app “Brute-force settings” "
            f"shows it): find it in Nextcloud's log, then add it under {_ALLOW_LIST}{command}. Never add the address "
            "of a proxy or gateway that others come through too."
        )
    if page.our_address == own:
        mask = ip_address(page.our_address).max_prefixlen
        failed = "It could not be put on the allow list. " if allowed is False else ""
        return (
            f"{failed}{why} Nextcloud sees this computer under its own address: run "
            f"'{allow_by_hand(page.our_address)}' on Nextcloud's machine, or add {page.our_address}, mask {mask}, "
            f"under {_ALLOW_LIST}. Run setup where the server runs: another computer has another address."
        )
    return (
        f"{why} Nextcloud sees this computer as {page.our_address}, which is not its own address"
        f"{f' ({own})' if own else ''}, but probably that of a proxy or gateway. Do NOT add it when others come "
        "through it too: they could then guess passwords without end. Have Nextcloud see the real address instead "
        "(`trusted_proxies` in its config.php, or a direct way between the two), then run "
        f"'nextcloud-mcp-server doctor', and add that one under {_ALLOW_LIST}"
        f"{f' or with {chr(39)}{allow_by_hand(own)}{chr(39)}' if own else ''}."
    )

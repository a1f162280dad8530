"""Reads a grant: one query over three tables, and the decryption of its row."""

from typing import Any

from pydantic import SecretStr
from sqlalchemy import ColumnElement, Row, Select, and_, select

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, Seal, Sealed
from nextcloud_mcp_server.storage.models import accounts, credentials, permissions
from nextcloud_mcp_server.storage.records import Account, Credential, Grant, Permission, Principal, Tokens
from nextcloud_mcp_server.storage.tokens import dump_tokens, load_tokens, tokens_of

ACCOUNT: tuple[ColumnElement[Any], ...] = (
    accounts.c.issuer,
    accounts.c.subject,
    accounts.c.id.label("account_id"),
    accounts.c.nextcloud_url,
    accounts.c.uid,
    accounts.c.display_name,
    accounts.c.storage_id,
    accounts.c.created_at.label("account_created_at"),
    accounts.c.mapped,
)
CREDENTIAL: tuple[ColumnElement[Any], ...] = (
    credentials.c.id.label("credential_id"),
    credentials.c.account_id.label("credential_account_id"),
    credentials.c.provider,
    credentials.c.login_name,
    credentials.c.secret,
    credentials.c.needs_reauth,
    credentials.c.version,
    credentials.c.created_at.label("credential_created_at"),
    credentials.c.refresh_token,
    credentials.c.expires_at,
    credentials.c.alternate,
    credentials.c.retry_at,
)
PERMISSION: tuple[ColumnElement[Any], ...] = (
    permissions.c.client_id,
    permissions.c.client_name,
    permissions.c.scopes,
    permissions.c.granted_at,
    permissions.c.last_used_at,
    permissions.c.paused,
)


def select_grants(which: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Select accounts that have a credential, each with the user's permissions that fit a condition."""
    credential = and_(
        credentials.c.account_id == accounts.c.id,
        credentials.c.issuer == accounts.c.issuer,
        credentials.c.subject == accounts.c.subject,
    )
    permission = and_(
        permissions.c.issuer == accounts.c.issuer, permissions.c.subject == accounts.c.subject, which
    )
    return select(*ACCOUNT, *CREDENTIAL, *PERMISSION).select_from(
        accounts.join(credentials, credential).outerjoin(permissions, permission)
    )


def open_grant(keys: KeyRing, row: Row[Any]) -> Grant:
    """Decrypt a row of `select_grants`; raises `Unsealable`."""
    principal = Principal(issuer=row.issuer, subject=row.subject)
    seal = keys.at("accounts", principal, row.account_id)
    return Grant(
        account=_account(row, display_name=seal.open("display_name", row.display_name)),
        credential=open_credential(keys, principal, row),
        permission=None if row.client_id is None else open_permission(keys, principal, row),
    )


def open_grant_or_blank(keys: KeyRing, row: Row[Any]) -> Grant:
    """Decrypt a row of `select_grants`; fields whose key is missing are blank."""
    try:
        return open_grant(keys, row)
    except Unsealable:
        credential = _credential(row, login_name="", secret="")
        return Grant(account=_account(row, display_name=row.uid), credential=credential, permission=None)


def open_credential(keys: KeyRing, principal: Principal, row: Row[Any]) -> Credential:
    """Decrypt a row with the columns of `CREDENTIAL`; raises `Unsealable`."""
    seal = keys.at("credentials", principal, row.credential_id)
    refresh_token = seal.open_optional("refresh_token", row.refresh_token)
    alternate = seal.open_optional("alternate", row.alternate)
    return _credential(
        row,
        login_name=seal.open("login_name", row.login_name),
        secret=seal.open("secret", row.secret),
        refresh_token=None if refresh_token is None else SecretStr(refresh_token),
        alternate=None if alternate is None else load_tokens(SecretStr(alternate)),
    )


def credential_values(keys: KeyRing, principal: Principal, credential: Credential) -> dict[str, object]:
    """Seal a credential for storing."""
    seal = keys.at("credentials", principal, credential.id)
    return {
        "id": credential.id,
        "account_id": credential.account_id,
        "issuer": principal.issuer,
        "subject": principal.subject,
        "provider": credential.provider,
        "login_name": seal.seal("login_name", credential.login_name),
        "needs_reauth": credential.needs_reauth,
        "version": credential.version,
        "created_at": credential.created_at,
        "retry_at": credential.retry_at,
        **token_values(seal, tokens_of(credential)),
        "alternate": seal_alternate(seal, credential.alternate),
    }


def token_values(seal: Seal, tokens: Tokens) -> dict[str, object]:
    """Seal the values that a refresh replaces; without a refresh token its column is left out."""
    values: dict[str, object] = {
        "secret": seal.seal("secret", tokens.access_token.get_secret_value()),
        "expires_at": tokens.expires_at,
    }
    if tokens.refresh_token is not None:
        values["refresh_token"] = seal.seal("refresh_token", tokens.refresh_token.get_secret_value())
    return values


def seal_alternate(seal: Seal, tokens: Tokens | None) -> Sealed | None:
    """Seal the alternate tokens, which are tried when the others are invalid."""
    return seal.seal_optional("alternate", tokens and dump_tokens(tokens).get_secret_value())


def open_permission(keys: KeyRing, principal: Principal, row: Row[Any]) -> Permission:
    """Decrypt a row with the columns of `PERMISSION`; raises `Unsealable`."""
    return Permission(
        principal=principal,
        client_id=row.client_id,
        client_name=keys.at("permissions", principal, row.client_id).open("client_name", row.client_name),
        scopes=row.scopes,
        granted_at=row.granted_at,
        last_used_at=row.last_used_at,
        paused=row.paused,
    )


def _account(row: Row[Any], *, display_name: str) -> Account:
    return Account(
        id=row.account_id,
        principal=Principal(issuer=row.issuer, subject=row.subject),
        nextcloud_url=row.nextcloud_url,
        uid=row.uid,
        display_name=display_name,
        storage_id=row.storage_id,
        created_at=row.account_created_at,
        mapped=row.mapped,
    )


def _credential(
    row: Row[Any],
    *,
    login_name: str,
    secret: str,
    refresh_token: SecretStr | None = None,
    alternate: Tokens | None = None,
) -> Credential:
    return Credential(
        id=row.credential_id,
        account_id=row.credential_account_id,
        provider=row.provider,
        login_name=login_name,
        secret=SecretStr(secret),
        needs_reauth=row.needs_reauth,
        version=row.version,
        created_at=row.credential_created_at,
        refresh_token=refresh_token,
        expires_at=row.expires_at,
        alternate=alternate,
        retry_at=row.retry_at,
    )

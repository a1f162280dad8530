"""Checks whether the metadata documents of clients can be fetched from here (`MODE=builtin`)."""

from typing import Final

import httpx2

from nextcloud_mcp_server.auth.builtin import document_source
from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.document_source import DocumentUnavailable
from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.errors import DocumentRefusal, DocumentUnfit
from nextcloud_mcp_server.settings.environment import Settings

#: Documents of common clients: Claude Code, Codex, VS Code. The first one that the settings allow is fetched.
KNOWN: Final = (
    "https://claude.ai/oauth/claude-code-client-metadata",
    "https://chatgpt.com/oauth/codex/client.json",
    "https://vscode.dev/oauth/client-metadata.json",
)
_TOPIC = "client documents"


async def look_at_documents(settings: Settings, client: httpx2.AsyncClient) -> Finding:
    """Fetch a document that is known to exist, with the server's own HTTP client, `client`."""
    if not settings.client_metadata_documents:
        return Finding(Verdict.OK, _TOPIC, "not read (CLIENT_METADATA_DOCUMENTS=false); clients register")
    allowed = AllowedClients(frozenset(settings.allowed_clients), frozenset(settings.denied_clients))
    url = next((url for url in KNOWN if allowed.allow_host(document_source.host_of(url) or "")), None)
    if url is None:
        return Finding(
            Verdict.OK, _TOPIC, "not tried: none of the hosts that are known here is in ALLOWED_CLIENTS"
        )
    return await _fetched(settings, url, client)


async def _fetched(settings: Settings, url: str, client: httpx2.AsyncClient) -> Finding:
    try:
        await document_source.fetch(client, url)
    except DocumentUnavailable as failure:
        reason, detail = failure.reason, failure.detail
    except DocumentRefusal as refusal:
        reason, detail = refusal.reason, f"was refused: {refusal.description.rstrip('.')}"
    else:
        way = "directly" if settings.client_metadata_proxy is None else "through CLIENT_METADATA_PROXY"
        return Finding(Verdict.OK, _TOPIC, f"{url} was read, {way}")
    return (
        _answered_otherwise(url, detail) if reason is DocumentUnfit else _not_fetched(settings, url, detail)
    )


def _not_fetched(settings: Settings, url: str, detail: str) -> Finding:
    host = document_source.host_of(url)
    proxy = (
        "or name an HTTP proxy in CLIENT_METADATA_PROXY"
        if settings.client_metadata_proxy is None
        else "or correct CLIENT_METADATA_PROXY"
    )
    return Finding(
        Verdict.WARN,
        _TOPIC,
        f"{url} {detail}. Clients such as Claude Code and Codex cannot be connected: let this server connect to {host} "
        f"on port 443, {proxy}, or set CLIENT_METADATA_DOCUMENTS=false, so that they register themselves.",
    )


def _answered_otherwise(url: str, detail: str) -> Finding:
    return Finding(
        Verdict.WARN,
        _TOPIC,
        f"{url} {detail}. If a proxy answers in its place, have it let this server through; else this client has "
        "changed, and the documents of others may work.",
    )

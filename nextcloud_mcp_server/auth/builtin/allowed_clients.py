"""The operator's settings of which clients users may connect."""

from dataclasses import dataclass

from nextcloud_mcp_server.auth.builtin import document_source, redirects
from nextcloud_mcp_server.storage.oauth_records import Client

_EVERY_HOST_BELOW = "*."


@dataclass(frozen=True, slots=True)
class AllowedClients:
    """Entries are a host, `*.` and a host for all its subdomains, or a scheme with its colon.

    Without `allowed` every client may be connected, except `denied` ones. A client with a document is judged by
    the document's host. A registered client may give itself any name, so it is judged by all its redirect URIs.
    """

    allowed: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()

    def allow(self, client: Client) -> bool:
        """Tell whether users may connect a client."""
        return all(map(self._allows, _places(client)))

    def allow_host(self, host: str) -> bool:
        """Tell whether client documents of a host may be read."""
        return self._allows(host)

    def _allows(self, place: str) -> bool:
        if any(_covers(word, place) for word in self.denied):
            return False
        return not self.allowed or any(_covers(word, place) for word in self.allowed)


def _places(client: Client) -> list[str]:
    host = document_source.host_of(client.client_id) if client.kind == "document" else None
    return [host] if host is not None else [place_of(uri) for uri in client.redirect_uris]


def place_of(uri: str) -> str:
    """Return the place of a redirect URI, as the settings write it: `localhost` for this computer."""
    return "localhost" if redirects.is_loopback(uri) else redirects.shown(uri)


def _covers(word: str, place: str) -> bool:
    return place.endswith(word[1:]) if word.startswith(_EVERY_HOST_BELOW) else place == word

"""What is known of a client besides the name that it gives itself."""

from nextcloud_mcp_server.auth.builtin import document_source, redirects
from nextcloud_mcp_server.auth.consent.views import ClientIdentity
from nextcloud_mcp_server.auth.known_clients import imitated
from nextcloud_mcp_server.storage.oauth_records import Client


def identity(client_id: str, name: str, registered: Client | None) -> ClientIdentity:
    """Build the identity of a client of a server with many users.

    `registered` is what the client told this server's authorization server; None if another issuer gives the
    tokens.
    """
    if host := document_source.host_of(client_id):
        return ClientIdentity(host=host, imitates=imitated(name, host))
    if registered is None:
        return ClientIdentity(id=client_id, imitates=imitated(name, None))
    uris = registered.redirect_uris
    places = tuple(dict.fromkeys("" if redirects.is_loopback(uri) else redirects.shown(uri) for uri in uris))
    imitations = (imitated(name, place or None) for place in places)
    return ClientIdentity(leads_to=places, imitates=next(filter(None, imitations), None))

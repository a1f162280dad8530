"""The administrator's page on security, as far as programs read it: the values it carries for its scripts.

Written after `apps/oauth2/lib/Settings/Admin.php` and the app `bruteforcesettings`; not recorded.
"""

import base64
import json
from ipaddress import ip_network
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, address_of, administrator, refuse_json
from nextcloud_mcp_server.sandbox.reply import account_page, forbidden, json_reply
from nextcloud_mcp_server.sandbox.throttle import Throttle

#: Of a network that is put on the list, so many of its addresses.
_MOST_ADDRESSES = 256


class AdminPage:
    """Answers at /settings/admin/security."""

    def __init__(self, context: Context, gate: Gate, throttle: Throttle) -> None:
        self._context = context
        self._gate = gate
        self._throttle = throttle

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/settings/admin/security", self._show),
            Route("/apps/bruteforcesettings/ipwhitelist", self._allow, methods=["POST"]),
        ]

    async def _allow(self, request: Request) -> Response:
        """Add an entry, as `IPWhitelistController::add` does (app bruteforcesettings); an app password suffices."""
        found = administrator(self._gate, request)
        if isinstance(found, Response):
            return found
        fields = await request.json()
        try:
            network = ip_network(f"{fields['ip']}/{fields['mask']}", strict=False)
        except ValueError:
            return json_reply([], status=400, headers={"X-User-Id": found.user.uid})
        self._context.state.allow_listed.update(map(str, islice(network.hosts(), _MOST_ADDRESSES)))
        entry = {"id": 1, "ip": fields["ip"], "mask": fields["mask"], "comment": ""}
        return json_reply(entry, headers={"X-User-Id": found.user.uid})

    async def _show(self, request: Request) -> Response:
        found = self._gate.identify(request, "other")
        if isinstance(found, Refusal):
            return refuse_json(found)
        if not found.user.admin:
            return forbidden("Logged in account must be an admin or have authorization to edit this setting.")
        address = address_of(request)
        states: dict[str, object] = {
            "bruteforcesettings-remote-address": address,
            "bruteforcesettings-bypass-listed": address in self._context.state.allow_listed,
            "bruteforcesettings-delay": self._throttle.delay_ms(address),
        }
        if "oauth2" in self._context.apps:
            states["oauth2-clients"] = [
                {
                    "id": client.id,
                    "name": client.name,
                    "redirectUri": client.redirect_uri,
                    "clientId": client.client_id,
                    "clientSecret": "",
                }
                for client in self._context.state.oauth_clients
            ]
        inputs = "".join(
            f'<input type="hidden" id="initial-state-{name}" '
            f'value="{base64.b64encode(json.dumps(value).encode()).decode()}">\n'
            for name, value in states.items()
        )
        return account_page("Security", f"<h1>Security</h1>{inputs}", uid=found.user.uid)

"""Mode `builtin`: this server is the authorization server of its clients, and people sign in with Nextcloud."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import httpx2

from nextcloud_mcp_server import core as cores
from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.pinned import open_outside
from nextcloud_mcp_server.auth.builtin.registration import Registration
from nextcloud_mcp_server.auth.builtin.tokens import Tokens
from nextcloud_mcp_server.auth.provider import RedirectProvider
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.core import Outside
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.people import PeopleCore, again_and_again, nextcloud_oauth2, open_ground
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.settings import Settings


@dataclass(frozen=True, slots=True)
class BuiltinCore(PeopleCore):
    """The core of a server that gives clients their tokens."""

    tokens: Tokens
    clients: Clients
    registration: Registration

"""The resources of a server: listed when they are first needed, kept, and forgotten when the server says they changed.

From 2026-07-28 on a server says how long a list is good for, and the SDK's client keeps it as long.
"""

from collections.abc import Sequence

import mcp_types as types
from mcp.shared.uri_template import UriTemplate

from nextcloud_mcp_server.bridge.connection import Connection
from nextcloud_mcp_server.errors import InvalidInput


class Catalog:
    """What one server lists. Pass its notifications to `notified`."""

    def __init__(self) -> None:
        self._resources: list[types.Resource] | None = None
        self._templates: list[types.ResourceTemplate] | None = None

    async def resources(self, connection: Connection) -> Sequence[types.Resource]:
        """Return the resources."""
        if connection.session.discover_result is not None:
            return await connection.list_resources()
        if self._resources is None:
            self._resources = await connection.list_resources()
        return self._resources

    async def templates(self, connection: Connection) -> Sequence[types.ResourceTemplate]:
        """Return the templates of resources."""
        if connection.session.discover_result is not None:
            return await connection.list_resource_templates()
        if self._templates is None:
            self._templates = await connection.list_resource_templates()
        return self._templates

    async def notified(self, notification: types.ServerNotification) -> None:
        """Forget the lists when the server says that they changed."""
        if isinstance(notification, types.ResourceListChangedNotification):
            self._resources = self._templates = None

    async def uri(self, connection: Connection, name: str, arguments: Sequence[str]) -> str:
        """Return the URI of a resource by its URI, its name, or a template with the values of its variables.

        Raises:
            InvalidInput: A template has another number of variables.
        """
        if not arguments and "{" not in name and ":" in name:
            # No list is needed for it.
            return name
        for template in await self.templates(connection):
            if name in {template.uri_template, template.name}:
                return expanded_template(template.uri_template, arguments)
        if "{" in name:
            return expanded_template(name, arguments)
        if arguments:
            raise InvalidInput(f'The server lists no template "{name}" that takes values.')
        for resource in await self.resources(connection):
            if name in {resource.name, resource.uri}:
                return resource.uri
        return name


def expanded_template(template: str, values: Sequence[str]) -> str:
    """Fill in the variables of a template by their order.

    Raises:
        InvalidInput: It is no template, or has another number of variables.
    """
    try:
        parsed = UriTemplate.parse(template)
    except ValueError as error:
        raise InvalidInput(f"{template} is not a template of URIs.") from error
    names = parsed.variable_names
    if len(values) != len(names):
        raise InvalidInput(f"{template} takes {len(names)} values ({', '.join(names)}), not {len(values)}.")
    return parsed.expand(dict(zip(names, values, strict=True)))

"""The entries of the MCP registry and of Nextcloud All-in-One, and the manifest of the bundle."""

from typing import Any, Final

from release.facts import (
    ASKED,
    DATA,
    DOCKER_NETWORKS,
    MANY_USERS,
    SECRETS,
    TITLE,
    USER,
    Facts,
    default_of,
    description_of,
    port,
)

SERVER_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
#: The first version of the format that knows servers whose packages uv fetches.
BUNDLE_FORMAT: Final = "0.4"
_TITLES: Final = {
    "NEXTCLOUD_HOST": "Address of your Nextcloud",
    "TOOLSETS": "Groups of tools",
    "READ_ONLY": "Read only",
}
_REQUIRED: Final = "NEXTCLOUD_HOST"


def server_json(facts: Facts, *, bundle_sha256: str) -> dict[str, Any]:
    """Describe the server for the MCP registry (`server.json`)."""
    return {
        "$schema": SERVER_SCHEMA,
        "name": facts.server_name,
        "title": TITLE,
        "description": facts.description,
        "version": facts.version,
        "repository": {"url": facts.url, "source": "github"},
        "websiteUrl": facts.url,
        "packages": [
            {
                "registryType": "mcpb",
                "identifier": f"{facts.url}/releases/download/{facts.tag}/{facts.bundle}",
                "version": facts.version,
                "fileSha256": bundle_sha256,
                "transport": {"type": "stdio"},
            },
            {
                "registryType": "oci",
                "identifier": f"{facts.image}:{facts.version}",
                "runtimeHint": "docker",
                # The connection outlasts the container.
                "runtimeArguments": [
                    {"type": "named", "name": "--volume", "value": f"nextcloud-mcp:{DATA}"},
                ],
                "packageArguments": [
                    {"type": "positional", "value": "nextcloud-mcp-server"},
                    {"type": "positional", "value": "serve"},
                ],
                "environmentVariables": [_asked(variable) for variable in ASKED],
                "transport": {"type": "stdio"},
            },
        ],
    }


def _asked(variable: str) -> dict[str, Any]:
    default = default_of(variable)
    return {
        "name": variable,
        "description": description_of(variable),
        "isRequired": variable == _REQUIRED,
        "format": "boolean" if default in {"true", "false"} else "string",
        **({"default": default} if default else {}),
    }


def bundle_manifest(facts: Facts) -> dict[str, Any]:
    """Describe the bundle (`manifest.json`); it asks for no password, as consent happens in the browser."""
    return {
        "manifest_version": BUNDLE_FORMAT,
        "name": facts.name,
        "display_name": TITLE,
        "version": facts.version,
        "description": facts.description,
        "long_description": (
            "Notes, files, calendars, tasks, contacts, boards and more of your own Nextcloud. You type no password "
            "here: when a tool first needs your Nextcloud, a page opens in your browser, and you decide what to allow."
        ),
        "author": {"name": facts.author},
        "repository": {"type": "git", "url": f"{facts.url}.git"},
        "homepage": facts.url,
        "documentation": facts.documentation,
        "support": f"{facts.url}/issues",
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "server.py"],
                "env": {variable: f"${{user_config.{variable.lower()}}}" for variable in ASKED},
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "keywords": list(facts.keywords),
        "license": facts.licence,
        "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": facts.python}},
        "user_config": {variable.lower(): _user_config(variable) for variable in ASKED},
    }


def _user_config(variable: str) -> dict[str, Any]:
    default = default_of(variable)
    entry: dict[str, Any] = {
        "type": "string",
        "title": _TITLES[variable],
        "description": description_of(variable),
        "required": variable == _REQUIRED,
    }
    if default in {"true", "false"}:
        return {**entry, "type": "boolean", "default": default == "true"}
    return {**entry, "default": default} if default else entry


def all_in_one(facts: Facts) -> dict[str, Any]:
    """Describe the community container of Nextcloud All-in-One."""
    volumes = {"nextcloud_aio_mcp_server": DATA, "nextcloud_aio_mcp_server_secrets": SECRETS}
    environment = {
        **MANY_USERS,
        "NEXTCLOUD_HOST": "https://%NC_DOMAIN%",
        "NEXTCLOUD_MCP_SERVER_URL": "https://mcp.%NC_DOMAIN%",
        "TRUSTED_PROXIES": DOCKER_NETWORKS,
    }
    return {
        "aio_services_v1": [
            {
                "container_name": "nextcloud-aio-mcp-server",
                "display_name": "Nextcloud MCP server",
                "documentation": facts.documentation,
                "image": facts.image,
                "image_tag": facts.version,
                "internal_port": port(),
                "restart": "unless-stopped",
                "init": False,
                "user": USER,
                "read_only": True,
                "tmpfs": ["/tmp"],  # noqa: S108 - a folder of the container
                "cap_drop": ["ALL"],
                "ports": [
                    {"ip_binding": "%APACHE_IP_BINDING%", "port_number": port(), "protocol": "tcp"},
                ],
                "environment": [f"{variable}={value}" for variable, value in environment.items()],
                "volumes": [
                    {"source": source, "destination": folder, "writeable": True}
                    for source, folder in volumes.items()
                ],
                "backup_volumes": list(volumes),
            }
        ]
    }

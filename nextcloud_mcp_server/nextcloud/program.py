"""The name under which this program is known to Nextcloud."""

#: The beginning of the User-Agent, and what an administrator has to allow where Nextcloud lists programs.
PROGRAM = "Nextcloud MCP server"


def user_agent() -> str:
    """Return the User-Agent; Nextcloud shows it under "Devices & sessions", so it names the computer."""
    import platform  # noqa: PLC0415 - costs a subprocess on some systems
    from importlib.metadata import version  # noqa: PLC0415 - only needed here

    return f"{PROGRAM} {version('nextcloud-mcp-server')} ({platform.node() or 'this computer'})"

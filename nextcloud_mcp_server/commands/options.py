"""The options that several commands share."""

from typing import Annotated

import typer

from nextcloud_mcp_server.sandbox.profile import ProfileName

NextcloudOption = Annotated[
    str | None,
    typer.Option("--nextcloud", metavar="URL", help="Address of your Nextcloud (or NEXTCLOUD_HOST)."),
]
HostOption = Annotated[str | None, typer.Option(help="Address to listen on (or NEXTCLOUD_MCP_HOST).")]
PortOption = Annotated[
    int | None, typer.Option(help="Port to listen on; 0 takes a free one (or NEXTCLOUD_MCP_PORT).")
]
ToolsetsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Groups of tools by commas, or all; default: notes,files (or TOOLSETS)."
    ),
]
SandboxOption = Annotated[bool, typer.Option("--sandbox", help="Use the built-in sandbox Nextcloud.")]
SandboxVersionOption = Annotated[
    ProfileName | None,
    typer.Option(help="The Nextcloud that the sandbox answers like; default: 34. Without --sandbox unused."),
]
NoAuthOption = Annotated[
    bool, typer.Option("--no-local-auth", help="Ask no secret of HTTP clients; loopback only.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print it for programs.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

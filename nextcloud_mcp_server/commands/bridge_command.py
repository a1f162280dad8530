"""`bridge`: an MCP server over stdio that forwards everything to other servers, and waits for consent."""

from pathlib import Path
from typing import Annotated

import typer

TargetArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="URL|NAME", help="Addresses of servers, or names of configured ones; all if none."
    ),
]
ConfigOption = Annotated[
    list[Path] | None, typer.Option("--config", metavar="PATH", help="Read this file alone.")
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="Send this with every request to the addresses."),
]
SignInOption = Annotated[
    bool, typer.Option(help="Sign in at the addresses when they ask for it (OAuth), or never.")
]
BrowserOption = Annotated[
    bool, typer.Option(help="Open the browser for consent, or end such a call at once with the link.")
]
LinkOption = Annotated[
    bool, typer.Option("--show-link", help="Print the link, wait, and leave it to you to open it.")
]
BridgeYesOption = Annotated[bool, typer.Option("--yes", help="Open pages without asking in the chat client.")]
AskOption = Annotated[
    bool, typer.Option("--ask", help="Open no page unless the chat client could ask you first.")
]
ConsentOption = Annotated[
    float, typer.Option(metavar="SECONDS", min=1, max=86_400, help="How long a call waits for you.")
]
PortOption = Annotated[
    int | None, typer.Option("--oauth-port", metavar="PORT", help="The port to which a sign-in comes back.")
]


def bridge(
    targets: TargetArgument = None,
    *,
    config: ConfigOption = None,
    header: HeaderOption = None,
    sign_in: SignInOption = True,
    oauth_port: PortOption = None,
    browser: BrowserOption = True,
    show_link: LinkOption = False,
    yes: BridgeYesOption = False,
    ask: AskOption = False,
    consent_seconds: ConsentOption = 600.0,
) -> None:
    """Lend other MCP servers to a chat client over stdio, and wait there for consent in the browser."""
    from nextcloud_mcp_server.commands.mcp_client.bridging import Wishes, run

    run(
        targets or [],
        Wishes(
            files=tuple(config or ()),
            headers=tuple(header or ()),
            sign_in=sign_in,
            oauth_port=oauth_port,
            browsing="show" if show_link else "open" if browser else "never",
            policy="yes" if yes else "ask" if ask else "auto",
            consent_seconds=consent_seconds,
        ),
    )

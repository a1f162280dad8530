"""The order of the commands in the help, and the words of their errors."""

from typing import Any, Final

import typer
from typer.core import TyperGroup

#: As a user meets them: try, connect, run, check; then what an operator of many users needs; then other MCP servers.
_ORDER: Final = (
    *("demo", "connect", "config", "serve", "doctor"),
    *("setup", "grants", "accounts", "clients", "audit", "keys", "db", "sandbox"),
    *("client", "bridge"),
)
#: What typer's checks of a value begin with, from the library that they use.
_PREFIX: Final = "Value error, "


class CommandGroup(TyperGroup):
    """The commands of the program."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own class
        """List the commands in the order of the help."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own classes
        """Run a command; the error of a wrong value begins with the value."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix(_PREFIX)
            raise

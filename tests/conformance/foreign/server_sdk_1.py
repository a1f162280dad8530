"""A server on version 1.30 of the Python SDK, as its README shows: `server_sdk_1.py stdio|http|sse [PORT]`."""

import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

TRANSPORTS = {"stdio": "stdio", "http": "streamable-http", "sse": "sse"}

server = FastMCP("kitchen", host="127.0.0.1", port=int(sys.argv[2]) if len(sys.argv) > 2 else 0)


class Guests(BaseModel):
    """The form that a tool asks for."""

    number: int = 4


@server.tool()
def times(count: int, of: str) -> str:
    """Repeat a word."""
    return " ".join([of] * count)


@server.tool()
async def bake(minutes: int, context: Context) -> str:
    """Report each minute."""
    for minute in range(1, minutes + 1):
        await context.report_progress(minute, minutes, f"minute {minute}")
    return f"Baked for {minutes} minutes."


@server.tool()
async def table(context: Context) -> str:
    """Ask how many guests there are."""
    answer = await context.elicit("How many guests?", Guests)
    return f"{answer.action}: {answer.data.number}" if answer.action == "accept" else answer.action


@server.tool()
def burn() -> str:
    """Fail."""
    raise ValueError("It is burnt.")


@server.resource("recipe://{dish}")
def recipe(dish: str) -> str:
    """Read a recipe."""
    return f"How to cook {dish}"


@server.prompt()
def suggest(dish: str) -> str:
    """Suggest a dish."""
    return f"Suggest a wine for {dish}."


if __name__ == "__main__":
    server.run(transport=TRANSPORTS[sys.argv[1]])

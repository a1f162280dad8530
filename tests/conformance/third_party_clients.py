"""The table of third-party clients: how each is run, and how each is asked for consent."""

from dataclasses import dataclass
from typing import Literal

#: `held`: the client shows the page, and the call returns its result. `error`: -32042, which it raises. `text`: the
#: result says it as text.
Way = Literal["held", "error", "text"]
Transport = Literal["http", "stdio"]


@dataclass(frozen=True, slots=True)
class Foreign:
    """One client.

    `requirements` names its Python environment, `script` what drives it (in `foreign`); commands have neither.
    `lacks` lists the steps of the journey that it does not support. `core`: cheap enough for every run of the
    tests.
    """

    name: str
    package: str
    version: str
    way: Way
    transports: tuple[Transport, ...] = ("http", "stdio")
    requirements: str | None = None
    script: str | None = None
    lacks: frozenset[str] = frozenset()
    core: bool = False


CLIENTS = (
    Foreign(
        "Python SDK 1", "mcp", "1.30.0", "error", requirements="sdk_1", script="play_sdk_1.py", core=True
    ),
    Foreign(
        "fastmcp", "fastmcp", "4.2.3", "held", requirements="fastmcp", script="play_fastmcp.py", core=True
    ),
    Foreign(
        "TypeScript SDK 2",
        "@modelcontextprotocol/client",
        "2.4.0",
        "held",
        script="play_ts_sdk_2.mjs",
        core=True,
    ),
    Foreign("TypeScript SDK 1", "@modelcontextprotocol/sdk", "1.32.2", "error", script="play_ts_sdk_1.mjs"),
    Foreign(
        "pydantic-ai",
        "pydantic-ai-slim",
        "2.68.0",
        "text",
        requirements="pydantic_ai",
        script="play_pydantic_ai.py",
    ),
    Foreign(
        "langchain-mcp-adapters",
        "langchain-mcp-adapters",
        "0.3.2",
        "text",
        requirements="langchain",
        script="play_langchain.py",
    ),
    Foreign(
        "openai-agents",
        "openai-agents",
        "0.24.0",
        "text",
        requirements="openai_agents",
        script="play_openai_agents.py",
    ),
    Foreign("mcp-remote", "mcp-remote", "0.15.1", "error", transports=("http",)),
    Foreign("mcporter", "mcporter", "0.12.3", "text", lacks=frozenset({"prompts"})),
    Foreign("Inspector --cli", "@modelcontextprotocol/inspector", "2.12.0", "text"),
)

"""The names of the chat clients; a small module, because the command line always imports it."""

from enum import StrEnum


class ChatClient(StrEnum):
    """The clients whose configuration is known."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    VSCODE = "vscode"
    CURSOR = "cursor"
    CODEX = "codex"
    GEMINI = "gemini"
    QWEN = "qwen"
    OPENCODE = "opencode"
    ZED = "zed"
    WINDSURF = "windsurf"
    LM_STUDIO = "lm-studio"
    GOOSE = "goose"
    OPEN_WEBUI = "open-webui"

"""The chat clients; apart from their configuration, because the command line names them at each start."""

from enum import StrEnum


class ChatClient(StrEnum):
    """The clients we know the configuration of."""

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

"""What an MCP client sees: one file per Nextcloud app. Only toolset.py imports mcp."""

"""The tools that MCP clients see: one module per Nextcloud app. Only toolset.py imports mcp."""

"""Our own authorization server for MCP clients (RFC 6749); knows no web framework and no database library."""

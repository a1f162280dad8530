"""The built-in authorization server for MCP clients (RFC 6749); knows no web or database library."""

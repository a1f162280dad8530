"""The MCP wire: forms of an elicitation, held calls, notifications. Imports no auth and no tools."""

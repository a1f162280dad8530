"""What goes over the MCP wire: forms of an elicitation, holds, notices. Imports no auth and no tools."""

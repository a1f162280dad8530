"""Nextcloud for AI assistants: MCP tools that ask for consent in the browser when they need it."""

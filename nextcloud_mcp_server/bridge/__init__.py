"""A client of other MCP servers, and the bridge that lends it to chat clients.

It imports nothing of this server's parts.
"""

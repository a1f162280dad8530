"""Gets this client access to other MCP servers by OAuth: discovery, registration, sign-in, tokens and their store.

Imports nothing of this server but `errors` and `logs`.
"""

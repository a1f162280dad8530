"""Speaks HTTP to one Nextcloud and returns models. Imports no mcp, starlette or sqlalchemy."""

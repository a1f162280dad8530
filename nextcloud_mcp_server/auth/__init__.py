"""Callers, what they may do, and how users consent. Imports no starlette and no mcp."""

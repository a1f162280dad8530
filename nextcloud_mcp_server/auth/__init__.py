"""Identify callers, decide what they may do, and ask for consent. Imports no starlette and no mcp."""

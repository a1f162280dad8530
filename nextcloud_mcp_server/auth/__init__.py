"""Who calls, what they may do, and how consent is asked for. Imports no starlette and no mcp."""

"""The resources that clients may attach to a conversation without a tool call: one module per kind."""

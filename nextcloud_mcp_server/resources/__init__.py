"""What clients may attach to a conversation without a tool: one file for each kind of resource."""

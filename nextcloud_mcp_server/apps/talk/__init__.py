"""Talk: conversations and their messages."""

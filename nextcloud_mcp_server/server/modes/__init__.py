"""The modes of the server: how users sign in, and which party issues the tokens of their clients."""

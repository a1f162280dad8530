"""What each multi-user mode adds: how users sign in, and who issues the tokens of their clients."""

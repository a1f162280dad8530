"""What the sandbox answers in place of the app Talk."""

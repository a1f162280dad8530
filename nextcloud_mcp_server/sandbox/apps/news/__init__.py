"""What the sandbox answers in place of the app News."""

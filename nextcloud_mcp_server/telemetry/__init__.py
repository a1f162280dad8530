"""What the operator can measure while the server runs."""

"""Forms and their submissions."""

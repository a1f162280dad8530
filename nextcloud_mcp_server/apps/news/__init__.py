"""News: feeds and their articles."""

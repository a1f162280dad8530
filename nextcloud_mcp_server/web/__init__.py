"""Pages for people and plain HTTP routes. Imports no tools."""

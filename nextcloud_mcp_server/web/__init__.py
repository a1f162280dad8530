"""Pages for users and plain HTTP routes. Imports no tools."""

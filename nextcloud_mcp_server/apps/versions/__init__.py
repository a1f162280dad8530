"""Earlier versions of files."""

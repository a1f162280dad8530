"""Tags, favorites and comments of files."""

"""Bookmarks: addresses in folders, with tags."""

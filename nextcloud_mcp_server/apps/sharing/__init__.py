"""Shares with users, with groups and by public links."""

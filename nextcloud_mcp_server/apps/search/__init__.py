"""Nextcloud's unified search."""

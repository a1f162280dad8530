"""Uploads in chunks, and transfers to and from the local folder."""

"""Consent: how a request for access becomes a grant at Nextcloud. Knows no web framework and no tools."""

"""Contacts in address books, over CardDAV."""

"""Calendars: their events, over CalDAV."""

"""Tasks, which are objects of calendars."""

"""iCalendar, vCard, time zones and recurrence rules. Does no input or output; imports only errors."""

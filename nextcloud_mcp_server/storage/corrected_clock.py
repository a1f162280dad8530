"""Conditions on times that a wrong clock may have written, and that are ahead since it was corrected.

Whatever is ahead by more than it can be counts as over. Otherwise it would block its user until the wrong time.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_

from nextcloud_mcp_server.storage.models import ElicitationColumns

#: How much the clocks of two replicas may differ.
CLOCKS_DIFFER = timedelta(minutes=10)
#: Longer than every lease, and than the difference between two clocks.
LONGEST_LEASE = timedelta(minutes=10)
#: Longer than every pause before due work.
LONGEST_PAUSE = timedelta(hours=3)


def is_over(columns: ElicitationColumns, now: datetime) -> ColumnElement[bool]:
    """Return the condition that the time of a consent request has passed, or that it is from the future."""
    return or_(columns.expires_at <= now, columns.created_at > now + CLOCKS_DIFFER)


def is_due(due_at: ColumnElement[datetime], now: datetime) -> ColumnElement[bool]:
    """Return the condition that work is due."""
    return or_(due_at <= now, due_at > now + LONGEST_PAUSE)


def is_free(
    lease_until: ColumnElement[datetime] | ColumnElement[datetime | None], now: datetime
) -> ColumnElement[bool]:
    """Return the condition that no process holds a lease."""
    return or_(lease_until.is_(None), lease_until <= now, lease_until > now + LONGEST_LEASE)


def has_happened(at: ColumnElement[datetime], now: datetime) -> ColumnElement[bool]:
    """Return the condition that a time is not ahead."""
    return at <= now + CLOCKS_DIFFER

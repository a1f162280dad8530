"""Column types that prevent mistakes: sealed values, aware times, scopes."""

from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, LargeBinary, String
from sqlalchemy.types import TypeDecorator

from nextcloud_mcp_server.storage.crypto import Sealed


class SealedValue(TypeDecorator[Sealed]):
    """Bytes that only accept `Sealed` values, so that no value is stored unencrypted by mistake."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Sealed | None, dialect: Dialect) -> bytes | None:
        """Convert a sealed value to bytes; refuse anything else."""
        del dialect
        if value is None:
            return None
        if type(value) is not Sealed:
            raise TypeError("A sealed column takes a Sealed value only.")
        return value.value

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> Sealed | None:
        """Return the bytes as a sealed value."""
        del dialect
        return None if value is None else Sealed(bytes(value))


class UtcTime(TypeDecorator[datetime]):
    """A point in time: aware in Python, UTC in the database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert a time to UTC; refuse one without a zone.

        Without a zone it would mean another moment on another machine.
        """
        if value is None:
            return None
        if value.tzinfo is None:
            raise TypeError("A time without a zone cannot be stored.")
        utc = value.astimezone(UTC)
        # SQLite compares times as text, which requires one format.
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Add the zone where the database stores none."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


class ScopeSet(TypeDecorator[frozenset[str]]):
    """Scopes as one sorted text, separated by spaces (RFC 6749 §3.3)."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> str:
        """Write the scopes in sorted order."""
        del dialect
        return " ".join(sorted(value or ()))

    def process_result_value(self, value: str | None, dialect: Dialect) -> frozenset[str]:
        """Parse the scopes."""
        del dialect
        return frozenset((value or "").split())

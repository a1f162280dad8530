from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy.dialects import postgresql, sqlite

from nextcloud_mcp_server.storage.columns import SealedValue, UtcTime
from nextcloud_mcp_server.storage.crypto import Sealed

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
VIENNA = timezone(timedelta(hours=1))


@pytest.mark.parametrize("value", ["text", b"bytes", 7])
def test_a_sealed_column_refuses_anything_that_is_not_sealed(value: Sealed) -> None:
    with pytest.raises(TypeError, match="Sealed"):
        SealedValue().process_bind_param(value, sqlite.dialect())


def test_a_sealed_column_takes_and_gives_sealed_values() -> None:
    column, dialect = SealedValue(), sqlite.dialect()

    assert column.process_bind_param(Sealed(b"x"), dialect) == b"x"
    assert column.process_bind_param(None, dialect) is None
    assert column.process_result_value(b"x", dialect) == Sealed(b"x")


@pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect()])
def test_a_time_without_a_zone_is_refused(dialect: sqlite.dialect | postgresql.dialect) -> None:
    with pytest.raises(TypeError, match="zone"):
        UtcTime().process_bind_param(NOON.replace(tzinfo=None), dialect)


def test_sqlite_gets_naive_utc_and_gives_back_an_aware_time() -> None:
    column, dialect = UtcTime(), sqlite.dialect()

    stored = column.process_bind_param(NOON.astimezone(VIENNA), dialect)

    assert stored == NOON.replace(tzinfo=None)
    assert column.process_result_value(stored, dialect) == NOON


def test_postgresql_keeps_the_zone_and_answers_in_utc() -> None:
    column, dialect = UtcTime(), postgresql.dialect()

    stored = column.process_bind_param(NOON.astimezone(VIENNA), dialect)
    answered = column.process_result_value(NOON.astimezone(VIENNA), dialect)

    assert stored == NOON
    assert answered is not None
    assert answered.tzinfo is UTC

"""Tables and columns take the names that the specifications use; every row stays.

Each table is made anew and filled, because SQLite cannot rename a constraint. The sealed values stay as they are:
they are bound to the names that they were first sealed with (see `storage/crypto.py`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

NOT_DISCARDED = sa.text("NOT discard")
#: Former table, new table, former columns that have another name in the new one.
TABLES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("grant_legs", "grant_requests", {}),
    ("held_grants", "pending_grants", {"home_id": "storage_id"}),
    ("redemptions", "failed_code_exchanges", {}),
    ("arrivals", "authorization_transactions", {}),
)
COLUMNS = (("accounts", "home_id", "storage_id"), ("answered_requests", "arrival_hash", "transaction_hash"))


def upgrade() -> None:
    for former, new, columns in TABLES:
        move(former, new, columns)
    for table, former, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {former} TO {new}")


def downgrade() -> None:
    for table, former, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {new} TO {former}")
    for former, new, columns in TABLES:
        move(new, former, {new_name: former_name for former_name, new_name in columns.items()})


def move(source: str, target: str, renamed: dict[str, str]) -> None:
    """Make a table like another one under a new name, with every row, and drop the other one."""
    inspector = sa.inspect(op.get_bind())
    columns = [
        sa.Column(renamed.get(column["name"], column["name"]), column["type"], nullable=column["nullable"])
        for column in inspector.get_columns(source)
    ]
    key = inspector.get_pk_constraint(source)["constrained_columns"]
    unique = [each["column_names"] for each in inspector.get_unique_constraints(source)]
    indexes = [each for each in inspector.get_indexes(source) if "duplicates_constraint" not in each]
    for index in indexes:
        op.drop_index(str(index["name"]), source)
    op.create_table(
        target,
        *columns,
        sa.PrimaryKeyConstraint(*key, name=f"pk_{target}"),
        *(sa.UniqueConstraint(*each, name=f"uq_{target}_{'_'.join(each)}") for each in unique),
    )
    names = [column["name"] for column in inspector.get_columns(source)]
    into = ", ".join(renamed.get(name, name) for name in names)
    # Names out of our own schema, no input.
    op.execute(f"INSERT INTO {target} ({into}) SELECT {', '.join(names)} FROM {source}")  # noqa: S608
    op.drop_table(source)
    for index in indexes:
        where = NOT_DISCARDED if index["unique"] else None
        op.create_index(
            str(index["name"]).replace(f"_{source}_", f"_{target}_"),
            target,
            [str(name) for name in index["column_names"]],
            unique=bool(index["unique"]),
            sqlite_where=where,
            postgresql_where=where,
        )

"""The ids of the keys that the database is sealed with, so that wrong keys are noticed at the start."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    # Filled at the next start: the keys are not known here.
    op.create_table(
        "sealing_keys",
        sa.Column("key_id", sa.LargeBinary(), nullable=False),
        sa.Column("noted_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key_id", name="pk_sealing_keys"),
    )


def downgrade() -> None:
    op.drop_table("sealing_keys")

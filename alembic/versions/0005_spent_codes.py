"""Authorization codes that came back to another browser and must never be exchanged for anyone."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "spent_codes",
        sa.Column("code_hash", sa.String(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("code_hash", name="pk_spent_codes"),
    )
    op.create_index("ix_spent_codes_expires_at", "spent_codes", ["expires_at"], unique=False)


def downgrade() -> None:
    op.drop_table("spent_codes")

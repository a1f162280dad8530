"""Authorization codes that must never be exchanged, and which party named the owner of an account."""

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
    # For existing accounts the party is unknown, so they give way to a mapping by the operator.
    op.add_column("accounts", sa.Column("mapped", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("accounts", "mapped")
    op.drop_table("spent_codes")

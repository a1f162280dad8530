"""Tasks: long calls that run apart from their request, with their results."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "tasks",
        sa.Column("id_hash", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=False),
        sa.Column("lease_until", _TIME, nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("message", sa.LargeBinary(), nullable=True),
        sa.Column("outcome", sa.LargeBinary(), nullable=True),
        sa.Column("answers", sa.LargeBinary(), nullable=True),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id_hash", name="pk_tasks"),
    )
    op.create_index("ix_tasks_expires_at", "tasks", ["expires_at"])
    op.create_index("ix_tasks_lease_owner", "tasks", ["lease_owner"])
    op.create_index("ix_tasks_issuer_subject_client_id", "tasks", ["issuer", "subject", "client_id"])


def downgrade() -> None:
    op.drop_table("tasks")

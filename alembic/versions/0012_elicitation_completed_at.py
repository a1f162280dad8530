"""When a consent request was completed; empty for one that is open, failed, declined or expired."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    # When those of before were completed is not known. They are deleted a week after their end.
    op.add_column("elicitations", sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("elicitations", "completed_at")

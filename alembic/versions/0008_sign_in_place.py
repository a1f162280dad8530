"""Where a person signed in, and when that browser was last seen: for their own list of it."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    # Those that are signed in now stay so for minutes; nothing is known of them.
    op.add_column("sign_ins", sa.Column("place", sa.LargeBinary(), nullable=True))
    op.add_column("sign_ins", sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("sign_ins", "last_used_at")
    op.drop_column("sign_ins", "place")

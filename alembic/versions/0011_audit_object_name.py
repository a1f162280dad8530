"""What the object of a call is called, for the account page: sealed, and empty where nothing has a name."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    # Entries of before have none: the names of their objects are known to Nextcloud alone.
    op.add_column("audit", sa.Column("object_name", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.drop_column("audit", "object_name")

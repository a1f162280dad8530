"""Where failed code exchanges came from: a keyed hash of the network or of a browser that is known."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    # Those of before count for half an hour at most, and for no network.
    op.add_column("redemptions", sa.Column("source", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("redemptions", "source")

"""A login flow among many people: the account that must come of it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    # The flows that are stored already belong to one person's server, which expects no account by name.
    op.add_column("login_flows", sa.Column("uid", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.drop_column("login_flows", "uid")

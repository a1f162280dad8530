"""What limits a sign-in: which refresh an access token came of, answered requests, and logouts of the issuer."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    # Zero is no generation, so access tokens of before end no grace; they are over within the hour.
    op.add_column("access_tokens", sa.Column("generation", sa.Integer(), server_default="0", nullable=False))
    op.add_column("sign_ins", sa.Column("sub_hash", sa.String(), nullable=True))
    op.add_column("sign_ins", sa.Column("sid_hash", sa.String(), nullable=True))
    op.create_table(
        "answered_requests",
        sa.Column("request_hash", sa.String(), nullable=False),
        sa.Column("arrival_hash", sa.String(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("request_hash", name="pk_answered_requests"),
    )
    op.create_index("ix_answered_requests_expires_at", "answered_requests", ["expires_at"], unique=False)
    op.create_table(
        "logouts",
        sa.Column("jti_hash", sa.String(), nullable=False),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("sub_hash", sa.String(), nullable=True),
        sa.Column("sid_hash", sa.String(), nullable=True),
        sa.Column("issued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("jti_hash", name="pk_logouts"),
    )
    op.create_index("ix_logouts_received_at", "logouts", ["received_at"], unique=False)
    op.create_index("ix_logouts_expires_at", "logouts", ["expires_at"], unique=False)


def downgrade() -> None:
    op.drop_table("logouts")
    op.drop_table("answered_requests")
    op.drop_column("sign_ins", "sid_hash")
    op.drop_column("sign_ins", "sub_hash")
    op.drop_column("access_tokens", "generation")

"""What many people need: refresh tokens, sign-ins, grant legs, held grants, failed redemptions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

NOT_DISCARDED = sa.text("NOT discard")


def upgrade() -> None:
    add_columns()
    create_sign_ins()
    create_grant_legs()
    create_held_grants()
    create_redemptions()


def downgrade() -> None:
    for table in ("redemptions", "held_grants", "grant_legs", "sign_ins"):
        op.drop_table(table)
    op.drop_column("elicitations", "refusals")
    op.drop_column("permissions", "paused")
    for column in ("lease_until", "lease_owner", "retry_at", "alternate", "expires_at", "refresh_token"):
        op.drop_column("credentials", column)


def add_columns() -> None:
    op.add_column("credentials", sa.Column("refresh_token", sa.LargeBinary(), nullable=True))
    op.add_column("credentials", sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("credentials", sa.Column("alternate", sa.LargeBinary(), nullable=True))
    op.add_column("credentials", sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("credentials", sa.Column("lease_owner", sa.String(), nullable=True))
    op.add_column("credentials", sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True))
    # Existing permissions are not paused, and existing consent requests were not refused.
    op.add_column("permissions", sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("elicitations", sa.Column("refusals", sa.Integer(), nullable=False, server_default="0"))


def create_sign_ins() -> None:
    op.create_table(
        "sign_ins",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("display_name", sa.LargeBinary(), nullable=False),
        sa.Column("uid", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_sign_ins"),
    )
    op.create_index("ix_sign_ins_expires_at", "sign_ins", ["expires_at"], unique=False)


def create_grant_legs() -> None:
    op.create_table(
        "grant_legs",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("state_hash", sa.String(), nullable=False),
        sa.Column("sign_in_hash", sa.String(), nullable=False),
        sa.Column("elicitation_id", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("redirect_uri", sa.LargeBinary(), nullable=False),
        sa.Column("verifier", sa.LargeBinary(), nullable=True),
        sa.Column("nonce", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("state_hash", name="pk_grant_legs"),
    )
    op.create_index("ix_grant_legs_expires_at", "grant_legs", ["expires_at"], unique=False)


def create_held_grants() -> None:
    op.create_table(
        "held_grants",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("elicitation_hash", sa.String(), nullable=False),
        sa.Column("sign_in_hash", sa.String(), nullable=False),
        sa.Column("elicitation_id", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("tokens", sa.LargeBinary(), nullable=False),
        sa.Column("uid", sa.LargeBinary(), nullable=False),
        sa.Column("display_name", sa.LargeBinary(), nullable=False),
        sa.Column("home_id", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("discard", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_held_grants"),
    )
    op.create_index("ix_held_grants_expires_at", "held_grants", ["expires_at"], unique=False)
    op.create_index(
        "uq_held_grants_active",
        "held_grants",
        ["elicitation_hash"],
        unique=True,
        sqlite_where=NOT_DISCARDED,
        postgresql_where=NOT_DISCARDED,
    )


def create_redemptions() -> None:
    op.create_table(
        "redemptions",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("sign_in_hash", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_redemptions"),
    )
    op.create_index("ix_redemptions_at", "redemptions", ["at"], unique=False)

"""What an authorization server keeps: sign-ins on their way, clients, codes, token families, access tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    create_arrivals()
    create_clients()
    create_codes()
    create_token_families()
    create_access_tokens()


def downgrade() -> None:
    for table in ("access_tokens", "token_families", "codes", "clients", "arrivals"):
        op.drop_table(table)


def create_arrivals() -> None:
    op.create_table(
        "arrivals",
        sa.Column("id_hash", sa.String(), nullable=False),
        sa.Column("state_hash", sa.String(), nullable=True),
        sa.Column("browser_hash", sa.String(), nullable=False),
        sa.Column("issuer", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("client_id", sa.String(), nullable=True),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.Column("connected", sa.Boolean(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id_hash", name="pk_arrivals"),
        sa.UniqueConstraint("state_hash", name="uq_arrivals_state_hash"),
    )
    op.create_index("ix_arrivals_expires_at", "arrivals", ["expires_at"], unique=False)
    op.create_index("ix_arrivals_issuer_subject", "arrivals", ["issuer", "subject"], unique=False)


def create_clients() -> None:
    op.create_table(
        "clients",
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("client_id", name="pk_clients"),
    )


def create_codes() -> None:
    op.create_table(
        "codes",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("code_hash", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("code_hash", name="pk_codes"),
    )
    op.create_index("ix_codes_expires_at", "codes", ["expires_at"], unique=False)


def create_token_families() -> None:
    op.create_table(
        "token_families",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("family_hash", sa.String(), nullable=False),
        sa.Column("code_hash", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("current_hash", sa.String(), nullable=False),
        sa.Column("previous_hash", sa.String(), nullable=True),
        sa.Column("rotated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("family_hash", name="pk_token_families"),
        sa.UniqueConstraint("code_hash", name="uq_token_families_code_hash"),
    )
    op.create_index("ix_token_families_expires_at", "token_families", ["expires_at"], unique=False)
    op.create_index(
        "ix_token_families_issuer_subject_client_id",
        "token_families",
        ["issuer", "subject", "client_id"],
        unique=False,
    )


def create_access_tokens() -> None:
    op.create_table(
        "access_tokens",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("family_hash", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.Column("issued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["family_hash"],
            ["token_families.family_hash"],
            name="fk_access_tokens_family_hash_token_families",
        ),
        sa.PrimaryKeyConstraint("token_hash", name="pk_access_tokens"),
    )
    op.create_index("ix_access_tokens_family_hash", "access_tokens", ["family_hash"], unique=False)
    op.create_index("ix_access_tokens_expires_at", "access_tokens", ["expires_at"], unique=False)

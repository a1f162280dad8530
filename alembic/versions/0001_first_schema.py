"""The first schema: elicitations, login flows, grants, audit and outbox."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ACTIVE = sa.text("state IN ('pending', 'opened')")


def upgrade() -> None:
    create_accounts()
    create_credentials()
    create_permissions()
    create_elicitations()
    create_login_flows()
    create_audit()
    create_outbox()


def downgrade() -> None:
    for table in ("outbox", "audit", "login_flows", "elicitations", "permissions", "credentials", "accounts"):
        op.drop_table(table)


def create_accounts() -> None:
    op.create_table(
        "accounts",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("nextcloud_url", sa.String(), nullable=False),
        sa.Column("uid", sa.String(), nullable=False),
        sa.Column("display_name", sa.LargeBinary(), nullable=False),
        sa.Column("home_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("issuer", "subject", name="uq_accounts_issuer_subject"),
        sa.UniqueConstraint("nextcloud_url", "uid", name="uq_accounts_nextcloud_url_uid"),
    )


def create_credentials() -> None:
    op.create_table(
        "credentials",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("login_name", sa.LargeBinary(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("needs_reauth", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_credentials_account_id"),
        sa.PrimaryKeyConstraint("id", name="pk_credentials"),
        sa.UniqueConstraint("account_id", name="uq_credentials_account_id"),
        sa.UniqueConstraint("issuer", "subject", name="uq_credentials_issuer_subject"),
    )


def create_permissions() -> None:
    op.create_table(
        "permissions",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("client_name", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("issuer", "subject", "client_id", name="pk_permissions"),
    )


def create_elicitations() -> None:
    op.create_table(
        "elicitations",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("id_hash", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("id", sa.LargeBinary(), nullable=False),
        sa.Column("url", sa.LargeBinary(), nullable=False),
        sa.Column("client_name", sa.LargeBinary(), nullable=False),
        sa.Column("error", sa.LargeBinary(), nullable=True),
        sa.Column("account_name", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id_hash", name="pk_elicitations"),
    )
    op.create_index(
        "ix_elicitations_active_expires_at",
        "elicitations",
        ["expires_at"],
        unique=False,
        sqlite_where=ACTIVE,
        postgresql_where=ACTIVE,
    )
    op.create_index(
        "uq_elicitations_active",
        "elicitations",
        ["issuer", "subject", "client_id", "kind"],
        unique=True,
        sqlite_where=ACTIVE,
        postgresql_where=ACTIVE,
    )


def create_login_flows() -> None:
    op.create_table(
        "login_flows",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("elicitation_hash", sa.String(), nullable=False),
        sa.Column("elicitation_id", sa.LargeBinary(), nullable=False),
        sa.Column("login_url", sa.LargeBinary(), nullable=False),
        sa.Column("poll_token", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.String(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("discard", sa.Boolean(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["elicitation_hash"], ["elicitations.id_hash"], name="fk_login_flows_elicitation_hash"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_login_flows"),
        sa.UniqueConstraint("elicitation_hash", name="uq_login_flows_elicitation_hash"),
    )
    op.create_index("ix_login_flows_due_at", "login_flows", ["due_at"], unique=False)


def create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("result", sa.String(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit"),
    )
    op.create_index("ix_audit_issuer_subject_number", "audit", ["issuer", "subject", "number"], unique=False)


def create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("nextcloud_url", sa.String(), nullable=False),
        sa.Column("login_name", sa.LargeBinary(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
    )
    op.create_index("ix_outbox_due_at", "outbox", ["due_at"], unique=False)

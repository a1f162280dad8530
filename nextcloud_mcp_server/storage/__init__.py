"""The database: records, sealed values, one repository per table. Nothing else imports sqlalchemy."""

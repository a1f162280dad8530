"""The database: records, sealing, one repository per table. The only package that imports sqlalchemy."""

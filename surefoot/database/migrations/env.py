"""Alembic's entry: runs on the connection `surefoot.database.migrate` opened, in our schema, inside its transaction."""

from alembic import context

from surefoot.database.version import VERSION_TABLE

connection = context.config.attributes["connection"]
schema = context.config.attributes["schema"]
context.configure(connection=connection, version_table=VERSION_TABLE, version_table_schema=schema)
context.run_migrations()

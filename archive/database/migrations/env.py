"""What Alembic runs to migrate: always with a connection that is handed over, inside a transaction that is open.

Rule of this file: no address is read here. ``archive.database.schema`` holds the lock and calls it.
"""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()

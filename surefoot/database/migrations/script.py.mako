"""${message}"""

from alembic import context, op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    schema = context.config.attributes["schema"]

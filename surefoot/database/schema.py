"""The Postgres schema that Surefoot's tables are in, beside your own, and how many shards its outbox gets."""

import re

from surefoot.errors import ConfigurationError

DEFAULT_SCHEMA = "surefoot"
DEFAULT_SHARDS = 8
_NAME = re.compile(r"^[a-z_][a-z0-9_]{0,62}$")


def checked_schema(name: str) -> str:
    """The name, if it may be written into SQL as it is; it is the one thing we put into statements by hand."""
    if not _NAME.match(name) or name.startswith("pg_"):
        raise ConfigurationError(
            f"{name!r} cannot be the schema: use lower-case letters, digits and _, not starting with a digit or pg_."
        )
    return name

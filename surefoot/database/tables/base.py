"""What all tables share: the schema they live in, and functions and views declared beside the tables they serve."""

from sqlalchemy import DDL, MetaData, event

from surefoot.database.schema import DEFAULT_SCHEMA

metadata = MetaData(schema=DEFAULT_SCHEMA)

objects: list[str] = []
"""CREATE statements for functions and views, with `{schema}` where the schema's name goes, in order."""


def declare(statement: str) -> None:
    """Declare a function or view that belongs to the schema; it is made after the tables."""
    objects.append(statement)
    text = statement.format(schema=DEFAULT_SCHEMA).replace("%", "%%")
    event.listen(metadata, "after_create", DDL(text))  # type: ignore[no-untyped-call]  # SQLAlchemy left it so

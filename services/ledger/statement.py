"""A statement as data: what is to be said to the database, and with which values. It can be looked at without one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = str | int | bool | None
"""No float: a balance is a whole number of minor units."""


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    """With `:name` where a value goes."""
    parameters: Mapping[str, Value] = field(default_factory=dict)

"""What is wrong with data, in one sentence that names the field and never shows the value.

These sentences end up in logs, rows and dead letters that more people read than may read the data.
"""

from typing import get_args

from pydantic import ValidationError
from pydantic_core.core_schema import ErrorType

from surefoot.errors import SurefootError

MAX_FIELD_CHARACTERS = 200

# Pydantic's own messages say what was expected. These few may quote what was found, or are somebody else's words.
_MAY_QUOTE = {"value_error", "assertion_error", "union_tag_invalid", "get_attribute_error", "mapping_type"}
_SAFE = frozenset(get_args(ErrorType)) - _MAY_QUOTE


def first_problem(error: ValidationError) -> str:
    """The first problem, as `field: what was expected`."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"])[:MAX_FIELD_CHARACTERS] or "the data as a whole"
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SurefootError):  # our own, Money's for one, which are written to this rule
        return f"{field}: {cause}"
    if first["type"] in _SAFE:
        return f"{field}: {first['msg']}."
    return f"{field}: refused by a check of its own."


def is_broken_json(error: ValidationError) -> bool:
    """Whether the text could not be read as JSON at all."""
    return error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid"

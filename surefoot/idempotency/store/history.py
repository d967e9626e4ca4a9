"""Lines of the history, and other JSON, as the statements take them."""

import json

from surefoot.idempotency.values import Note, PhaseMisuse

Lines = tuple[list[str], list[str]]
"""What has happened, and the details of it: two columns."""


def lines(*notes: Note) -> Lines:
    return [note.what for note in notes], [json_text(dict(note.details), what="A history line") for note in notes]


def json_text(value: object, *, what: str) -> str:
    """As it is stored, for good: what cannot be read back as it was is refused."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise PhaseMisuse(
            f"{what} cannot be stored: {error}. It is kept as JSON: give it texts, whole numbers, lists and dicts."
        ) from None

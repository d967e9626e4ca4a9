"""Personal: the mark of data about a person, put on a field where an event is declared.

    class OrderPlaced(EventData):
        order_id: str
        buyer: Annotated[str, Personal]

In the exported JSON Schema it is `"x-personal": true`, so that whoever shows or keeps events elsewhere knows too. What
the platform prints, logs, serves and exports shows such a field as ••• unless somebody may see it and says why.
"""

from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

MARK = "x-personal"


class Personal:
    """The mark itself: `Annotated[str, Personal]`. On a model or a list it stands for all that is in it."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # Beside a reference, never in what it refers to: the same model may be nobody's secret elsewhere.
        return {**handler(core_schema), MARK: True}


def is_personal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get(MARK) is True

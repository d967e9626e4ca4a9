"""All hand-written bad records, put together from one module per kind."""

from tests.support.bad_records.attribute_values import CASES as ATTRIBUTE_VALUES
from tests.support.bad_records.binary_mode import CASES as BINARY_MODE
from tests.support.bad_records.case import BadCase
from tests.support.bad_records.data_json import CASES as DATA_JSON
from tests.support.bad_records.data_model import CASES as DATA_MODEL
from tests.support.bad_records.structured_mode import CASES as STRUCTURED_MODE
from tests.support.bad_records.structured_value import CASES as STRUCTURED_VALUE
from tests.support.bad_records.transport import CASES as TRANSPORT

__all__ = ["CASES", "BadCase"]

CASES: tuple[BadCase, ...] = (
    *TRANSPORT,
    *BINARY_MODE,
    *STRUCTURED_MODE,
    *STRUCTURED_VALUE,
    *ATTRIBUTE_VALUES,
    *DATA_JSON,
    *DATA_MODEL,
)

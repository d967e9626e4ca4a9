"""Each operation of an OpenAPI document is one test, tried with the cases that schemathesis makes for it.

Under pytest 9, `schema.parametrize()` gives all operations of a document the same node id. pytest-xdist runs one test
per id, so it would try one operation and leave out the others.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import load_all_checks
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.generation.meta import TestPhase
from schemathesis.schemas import APIOperation, BaseSchema

Case = schemathesis.Case[Any]
Operation = APIOperation[Any, Any, Any, Any]
# What fits a document may still be refused: an account that is not there, a place where no page ended.
NOT_MEANT = [schemathesis.checks.positive_data_acceptance]
SETTINGS = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def each_operation(schema: BaseSchema, *, expected: int) -> pytest.MarkDecorator:
    """Parametrize a test over the operations of a document.

    expected: how many there are, written by hand, so that none is lost unnoticed.
    """
    found = list(schema.get_all_operations())
    operations = [result.ok() for result in found if isinstance(result, Ok)]
    assert len(found) == len(operations) == expected, found
    return pytest.mark.parametrize("operation", [pytest.param(each, id=each.label) for each in operations])


def try_operation(operation: Operation, ask: Callable[[Case], None]) -> None:
    """Call `ask` with the examples of the document, with each boundary that it names, and with made-up cases."""
    load_all_checks()

    def asked(case: Case) -> None:
        ask(case)

    config = HypothesisTestConfig(operation.schema.config, list(HypothesisTestMode), settings=SETTINGS)
    create_test(operation=operation, test_func=asked, config=config)()


def status_of(case: Case, base_url: str, session: requests.Session, headers: Mapping[str, str]) -> int:
    """Ask a server, and check its answer against the document. A case that is meant to lack its token goes without."""
    header = case.meta.components.get(ParameterLocation.HEADER) if case.meta is not None else None
    is_without = header is not None and header.mode is schemathesis.GenerationMode.NEGATIVE
    given = {} if is_without else dict(headers)
    answer = case.call_and_validate(base_url=base_url, headers=given, session=session, excluded_checks=NOT_MEANT)
    return int(answer.status_code)


def is_made_up(case: Case) -> bool:
    """Hypothesis drew it. All other cases follow from the document alone and are the same in every run."""
    return case.meta is not None and case.meta.phase.name is TestPhase.FUZZING

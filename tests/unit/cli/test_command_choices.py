"""Commands list choices in their help without loading the modules that declare them: here both are compared."""

from collections.abc import Sequence
from typing import get_args

import pytest

from consumers.command import NAMES
from consumers.runtime import CONSUMERS
from surefoot.cli.dlq.discard import STATUSES as APPROVAL_STATUSES
from surefoot.cli.idempotency import STATES
from surefoot.cli.saga.looking import STATUSES as SAGA_STATUSES
from surefoot.dlq.jobs.views import ApprovalStatus
from surefoot.idempotency.values import State
from surefoot.saga.instance import Status


@pytest.mark.parametrize(
    ("listed", "declared"),
    [
        (SAGA_STATUSES, get_args(Status)),
        (APPROVAL_STATUSES, get_args(ApprovalStatus)),
        (STATES, get_args(State)),
        (NAMES, tuple(CONSUMERS)),
    ],
    ids=["saga statuses", "approval statuses", "idempotency states", "services"],
)
def test_a_command_offers_every_choice_there_is(listed: Sequence[str], declared: Sequence[str]) -> None:
    assert listed == declared

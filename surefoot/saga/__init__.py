"""Sagas: definitions as data, a pure engine that decides, a verifier that proves.

Pure: nothing in here reads or writes anything. `orchestrator` runs sagas; `surefoot.testing` tries them without a
broker or a database.
"""

from surefoot.retry import Retry
from surefoot.saga.definition import Definition, DefinitionError
from surefoot.saga.engine import begin, decide
from surefoot.saga.instance import Instance, Status
from surefoot.saga.operating import NotNow
from surefoot.saga.saga import Saga

__all__ = ["Definition", "DefinitionError", "Instance", "NotNow", "Retry", "Saga", "Status", "begin", "decide"]

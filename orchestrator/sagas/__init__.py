"""The platform's own sagas. `sagas` has all versions that may be under way."""

from orchestrator.sagas.order_placement import order_placement
from orchestrator.sagas.return_processing import return_processing

__all__ = ["order_placement", "return_processing", "sagas"]

sagas = (order_placement, return_processing)

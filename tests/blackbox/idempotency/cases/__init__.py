"""All cases, in the order in which they are told."""

from importlib import import_module

from tests.blackbox.idempotency.case import CASES

FILES = "failing fingerprint keys leaving mismatch problems replays routes storing together windows"
for name in FILES.split():
    import_module(f"{__name__}.{name}")

__all__ = ["CASES"]

"""What a test run has shown: where a process was killed or frozen, which protection was taken out, by which test."""

from tests.support.evidence.record import DIRECTORY, record, removed

__all__ = ["DIRECTORY", "record", "removed"]

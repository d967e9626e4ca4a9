"""Bad records: what a topic may hold that is no event its consumer can take, byte by byte.

`CASES` are written by hand, each with the reason that the CloudEvents specification and docs/contracts.md give for it.
`bent_records` makes more of them by chance, expecting only that nothing worse than a BadRecord comes of them.
"""

from tests.support.bad_records.case import BadCase
from tests.support.bad_records.corpus import CASES
from tests.support.bad_records.generated import bent_records

__all__ = ["CASES", "BadCase", "bent_records"]

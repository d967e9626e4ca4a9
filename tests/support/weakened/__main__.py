"""A program with one protection taken out, to show that the crash tests would notice.

    python -m tests.support.weakened consumer fence consume … --database … --kafka …

The first word names a module beside this one, the second a protection of that module.
"""

import importlib
import sys

from tests.support.evidence import record


def main() -> None:
    part, protection = sys.argv[1:3]
    del sys.argv[1:3]
    module = importlib.import_module(f"tests.support.weakened.{part}")
    module.PROTECTIONS[protection]()
    record("removed", f"{part}.{protection}")
    module.main()


if __name__ == "__main__":
    main()

"""`surefoot …` as people run it: as a process, with what it printed."""

import os
from collections.abc import Mapping

from tests.support import processes
from tests.support.processes import Done


async def surefoot(*arguments: str, environment: Mapping[str, str] | None = None) -> Done:
    known = {name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")}
    given = {**known, "COLUMNS": "200", "NO_COLOR": "1", **(environment or {})}
    return await processes.run_async(["surefoot", *arguments], environment=given)


def assert_says(done: Done, sentence: str) -> None:
    """It could not be done, and that was said in a sentence."""
    assert "Traceback" not in done.err + done.out
    assert sentence in done.err, done
    assert done.code == 2, done

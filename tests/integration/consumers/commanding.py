"""`surefoot …` as people run it: as a process, with what it printed."""

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple


class Done(NamedTuple):
    code: int
    out: str
    err: str


async def surefoot(*arguments: str, environment: Mapping[str, str] | None = None) -> Done:
    known = {name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "surefoot",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**known, "COLUMNS": "200", "NO_COLOR": "1", **(environment or {})},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 60)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return Done(process.returncode or 0, out.decode(), err.decode())


def assert_says(done: Done, sentence: str) -> None:
    """It could not be done, and that was said in a sentence."""
    assert "Traceback" not in done.err + done.out
    assert sentence in done.err, done
    assert done.code == 2, done

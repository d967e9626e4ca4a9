"""Where the processor time of the saga bench goes in our own processes: a run under Python's profiler, as text.

The profiler makes calls dearer than they are, so its run is in no rate; what it shows is what there is to look at.
"""

import pstats
from io import StringIO
from pathlib import Path

from bench.saga_ground import Shop, open_for_business

LINES = 30


async def measure(where: Shop, sagas: int) -> str:
    profiles = where.logs / "profiles"
    profiles.mkdir(exist_ok=True)
    async with open_for_business(where, profiles=profiles):
        await where.rate(sagas)
    about = f"{sagas:,} sagas on the embedded log. Times are in seconds, and include that of the profiler.\n"
    found = sorted(profiles.glob("*.prof"))
    return about + "".join(
        f"\n{one.stem}: by the time spent in each function itself\n{_summed_up(one)}" for one in found
    )


def _summed_up(profile: Path) -> str:
    said = StringIO()
    pstats.Stats(str(profile), stream=said).strip_dirs().sort_stats("tottime").print_stats(LINES)
    table = said.getvalue().partition("ncalls")
    return "".join(table[1:]).rstrip() + "\n"

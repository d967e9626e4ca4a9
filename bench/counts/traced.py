"""Runs a module of one source tree, and records in which files of that tree a function ran.

    python -P traced.py TREE METADATA RECORD from-start|on-signal MODULE [ARGUMENT …]

`on-signal`: SIGUSR1 begins to record, the next SIGUSR1 ends it and writes RECORD, a JSON list of paths. `from-start`:
it records from the start of the module to the end of the process. Standard library only, as in `measured.py`.
"""

import atexit
import cProfile
import importlib
import inspect
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from types import CodeType

HERE = Path(__file__).resolve().parent
NOT_PRODUCT = frozenset({"bench", "tests", ".venv"})
INNER = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""Parts of a function, or of a module's own body."""


class FileRecorder:
    """Main thread only. Greenlets, in which SQLAlchemy runs, are seen too."""

    def __init__(self, tree: str, record: Path) -> None:
        self._tree = f"{Path(tree).resolve()}{os.sep}"
        self._record = record
        self._profile: cProfile.Profile | None = None

    def switch(self, *_: object) -> None:
        if self._profile is None:
            self._profile = cProfile.Profile()
            self._profile.enable()
            return
        self._profile.disable()
        codes = [entry.code for entry in self._profile.getstats() if isinstance(entry.code, CodeType)]
        self._profile = None
        files = {code.co_filename.removeprefix(self._tree) for code in codes if self._is_function(code)}
        beside = self._record.with_suffix(".part")
        beside.write_text(json.dumps(sorted(files)))
        beside.rename(self._record)

    def _is_function(self, code: CodeType) -> bool:
        """Of this tree, and no body of a module or a class, which run when they are imported."""
        is_body = not code.co_flags & inspect.CO_OPTIMIZED
        within = code.co_filename.removeprefix(self._tree)
        is_ours = within != code.co_filename and within.partition(os.sep)[0] not in NOT_PRODUCT
        return is_ours and not is_body and code.co_name not in INNER


def main() -> None:
    tree, metadata, record, mode, module, *arguments = sys.argv[1:]
    sys.path.append(str(HERE.parent / "quick"))
    importlib.import_module("measured").import_from(tree, metadata)
    sys.path.append(str(HERE))
    recorder = FileRecorder(tree, Path(record))
    signal.signal(signal.SIGUSR1, recorder.switch)
    if mode == "from-start":
        recorder.switch()
        atexit.register(recorder.switch)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

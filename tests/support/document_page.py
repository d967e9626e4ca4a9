"""A page of the documents that has files of Python, tests among them: the files are written as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

_FILE = re.compile(r"^```python\n(# (\w+\.py)\n.*?)^```$", re.MULTILINE | re.DOTALL)
_SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


class DocumentPage:
    def __init__(self, name: str) -> None:
        self.text = (Path(__file__).parents[2] / "docs" / name).read_text()
        self._files = [(name, text) for text, name in _FILE.findall(self.text)]

    def assert_each_block_is_a_file(self) -> None:
        names = {name for name, _ in self._files}
        assert len(self._files) == self.text.count("```python") == len(names)

    def run_tests(self, directory: Path) -> str:
        """Write the files into an empty directory, and run pytest there; what it says."""
        (directory / "pytest.ini").write_text(_SETTINGS)
        for name, text in self._files:
            (directory / name).write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr

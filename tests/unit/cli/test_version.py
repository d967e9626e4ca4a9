"""`surefoot --version` says what runs, and which tables it fits."""

import re

from typer.testing import CliRunner

from surefoot.cli.main import build


def test_the_version_is_shown_with_that_of_python_and_of_the_tables() -> None:
    done = CliRunner().invoke(build(), ["--version"])
    assert done.exit_code == 0
    sentence = r"surefoot \d+\.\d+\S* on Python 3\.\d+\.\S+; needs tables of version \d{4}, .* from \d{4} on\n"
    assert re.fullmatch(sentence, done.output)

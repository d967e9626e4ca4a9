"""Changes one part of an SQL statement of the product."""

from typing import Any


def change_statement(of: type, name: str, part: str, instead: str) -> None:
    """Let every `of` that is made from now on have `instead` in its statement `name`, where `part` was."""
    real = of.__init__  # type: ignore[misc]

    def changed(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        before: str = getattr(self, name)
        assert part in before, f"{part!r} is no part of the statement {name} any more"
        setattr(self, name, before.replace(part, instead))

    of.__init__ = changed  # type: ignore[misc]

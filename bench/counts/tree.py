"""What the files of a tree say about its shape: sizes, importers, names. Reads source text; imports none of it."""

import ast
import statistics
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

NOT_PRODUCT = frozenset({"tests", "bench", "docs", "build", "deploy"})
SMALL_LINES = 60
NOT_GERUNDS = frozenset({"pricing", "shipping", "tracing", "logging", "binding", "encoding", "testing", "routing"})
"""Nouns of the trade that end in -ing."""


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    lines: int
    parsed: ast.Module

    @property
    def word(self) -> str:
        """The last word of its name, such as `parking` of `surefoot.consumer_runtime.parking`."""
        return self.name.rpartition(".")[2].rpartition("_")[2]


@dataclass(frozen=True, slots=True)
class Shape:
    """The counts that `make counts` prints."""

    files: int
    lines: int
    median_lines: int
    small_with_one_importer: int
    repeated_class_names: int
    class_names: int
    gerund_modules: int
    root_names: int


class Tree:
    """The product's modules: everything but tests, benches and what is hidden."""

    def __init__(self, root: Path) -> None:
        self.modules: dict[str, Module] = {}
        for path in sorted(root.glob("*/**/*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[0] in NOT_PRODUCT or parts[0].startswith(".") or not (root / parts[0] / "__init__.py").exists():
                continue
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text()
            self.modules[name] = Module(name, text.count("\n"), ast.parse(text))

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """For each module, those that import it, or a name from it."""
        found: dict[str, set[str]] = {name: set() for name in self.modules}
        for module in self.modules.values():
            for name in self._imported_by(module):
                if name in found and name != module.name:
                    found[name].add(module.name)
        return found

    def _imported_by(self, module: Module) -> set[str]:
        found: set[str] = set()
        for node in ast.walk(module.parsed):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {name if name in self.modules else node.module for name in inner}
        return found

    def small_with_one_importer(self) -> list[str]:
        return [
            name
            for name, module in self.modules.items()
            if 0 < module.lines < SMALL_LINES
            and not name.endswith("__main__")
            and len(self.importers[name]) == 1
            and not any(other.startswith(f"{name}.") for other in self.modules)
        ]

    def class_names(self) -> Counter[str]:
        """How many classes have each name. Private ones do not count: they are seen in their own module only."""
        return Counter(
            node.name
            for module in self.modules.values()
            for node in module.parsed.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )

    def gerund_modules(self) -> list[str]:
        return [
            name
            for name, module in self.modules.items()
            if module.word.endswith("ing") and len(module.word) > len("string") - 1 and module.word not in NOT_GERUNDS
        ]

    def root_names(self) -> list[str]:
        """What `from surefoot import …` offers."""
        for node in self.modules["surefoot"].parsed.body:
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return [str(name) for name in ast.literal_eval(node.value)]  # type: ignore[attr-defined]
        return []

    def shape(self) -> Shape:
        sizes = [module.lines for module in self.modules.values()]
        classes = self.class_names()
        return Shape(
            files=len(sizes),
            lines=sum(sizes),
            median_lines=round(statistics.median(sizes)),
            small_with_one_importer=len(self.small_with_one_importer()),
            repeated_class_names=sum(count > 1 for count in classes.values()),
            class_names=len(classes),
            gerund_modules=len(self.gerund_modules()),
            root_names=len(self.root_names()),
        )

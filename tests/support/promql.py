"""What an expression of Prometheus asks for, compared with the metrics that our code registers."""

import importlib
import re
from functools import cache
from pathlib import Path

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase
from promql_parser import (
    AggModifierType,
    AggregateExpr,
    BinaryExpr,
    Call,
    Expr,
    LabelModifierType,
    MatrixSelector,
    NumberLiteral,
    ParenExpr,
    StringLiteral,
    SubqueryExpr,
    UnaryExpr,
    VectorSelector,
    parse,
)

ROOT = Path(__file__).parents[2]
FOLDERS = ("surefoot", "services", "consumers")
OF_A_TARGET = frozenset({"job", "instance"})
"""Labels that Prometheus gives to every series it scrapes."""
SCALARS = frozenset({"time", "scalar", "vector", "pi"})
SET_OPERATORS = frozenset({"and", "or", "unless"})
Labels = frozenset[str]


@cache
def exported() -> dict[str, Labels]:
    """The names of our metrics as Prometheus stores them, with their labels."""
    for path in _sources():
        if "prometheus_client import" in path.read_text():
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found: dict[str, Labels] = {}
    for metric in REGISTRY._collector_to_names:
        if isinstance(metric, MetricWrapperBase):
            (described,) = metric.describe()
            found.update(_stored(described.name, described.type, frozenset(metric._labelnames)))
    return {name: labels for name, labels in found.items() if name.startswith("surefoot_")}


@cache
def words_in_the_code() -> Labels:
    """Every string that the code writes as one word: the values of our labels are among them."""
    return frozenset(word for path in _sources() for word in re.findall(r"[\"'](\w+)[\"']", path.read_text()))


def _sources() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def _stored(name: str, kind: str, labels: Labels) -> dict[str, Labels]:
    if kind == "histogram":
        return {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
    return {f"{name}_total" if kind == "counter" else name: labels}


class Asked:
    """What an expression asks for. A broken expression raises ValueError.

    names: the metrics in it.
    labels: those that its result has.
    problems: a sentence for each metric, label or value that there is not, and for sides that never match.
    """

    def __init__(self, expression: str, known: dict[str, Labels] | None = None) -> None:
        self._known = exported() if known is None else known
        self.names: set[str] = set()
        self.problems: list[str] = []
        self.labels = self._of(parse(expression)) or frozenset()
        if not self.names:
            self.problems.append("it watches nothing")

    def _of(self, part: Expr) -> Labels | None:
        """The labels of a part's result; None if it is a number."""
        match part:
            case VectorSelector():
                return self._of_selector(part)
            case MatrixSelector():
                return self._of_selector(part.vector_selector)
            case ParenExpr() | UnaryExpr() | SubqueryExpr():
                return self._of(part.expr)
            case AggregateExpr():
                return self._of_aggregate(part)
            case BinaryExpr():
                return self._of_pair(part)
            case Call():
                return self._of_call(part)
            case NumberLiteral() | StringLiteral():
                return None
        raise AssertionError(f"Nobody has said which labels {part} has.")

    def _of_selector(self, selector: VectorSelector) -> Labels:
        name = selector.name or ""
        self.names.add(name)
        if name not in self._known:
            self.problems.append(f"there is no {name}")
            return OF_A_TARGET
        labels = self._known[name] | OF_A_TARGET
        for matcher in selector.matchers.matchers:
            if matcher.name not in labels:
                self.problems.append(f"{name} has no {matcher.name}")
            for value in [] if "$" in matcher.value or matcher.name in OF_A_TARGET else matcher.value.split("|"):
                if value not in words_in_the_code():
                    self.problems.append(f"nothing is ever {value}")
        return labels

    def _of_aggregate(self, part: AggregateExpr) -> Labels:
        inner = self._of(part.expr) or frozenset()
        if part.modifier is None:
            return inner if str(part.op) in ("topk", "bottomk") else frozenset()
        named = frozenset(part.modifier.labels)
        if missing := named - inner:
            self.problems.append(f"no {', '.join(sorted(missing))} is left to go by")
        return named if part.modifier.type == AggModifierType.By else inner - named

    def _of_call(self, part: Call) -> Labels | None:
        inner = [found for argument in part.args if (found := self._of(argument)) is not None]
        if part.func.name in SCALARS:
            return None
        if part.func.name.startswith("absent"):
            return frozenset()
        labels = inner[0] if inner else frozenset()
        if part.func.name == "histogram_quantile":
            if "le" not in labels:
                self.problems.append("a quantile needs le")
            return labels - {"le"}
        return labels

    def _of_pair(self, part: BinaryExpr) -> Labels | None:
        left, right = self._of(part.lhs), self._of(part.rhs)
        if left is None or right is None:
            return right if left is None else left
        if str(part.op) == "or":
            return left | right
        matching = part.modifier.matching if part.modifier else None
        if matching is None:
            compared = (left, right)
        else:
            by = frozenset(matching.labels)
            compared = (by & left, by) if matching.type == LabelModifierType.Include else (left - by, right - by)
        if compared[0] != compared[1]:
            self.problems.append(f"{', '.join(sorted(compared[0] ^ compared[1]))} is on one side only")
        return left if str(part.op) in SET_OPERATORS else compared[0]

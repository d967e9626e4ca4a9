"""A saga as a picture: Mermaid text that documents and code hosts draw. Pure.

Solid arrows lead down, the way it goes if all is well. Dashed arrows lead back, from what was refused or undone to what
is undone next; or to STUCK, where a person decides. What is the same everywhere is not drawn: what people may do
besides, and that an undo, or a step behind the pivot, which is out of attempts is STUCK too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from surefoot.events import event_type_of
from surefoot.saga.definition import Branch, Definition, Node, Reply, Step, Wait

START, COMPLETED, UNDONE, STUCK = "START", "COMPLETED", "UNDONE", "STUCK"
"""Names of steps are in lower case, so these are free."""
TAKEN = frozenset({"call", "class", "click", "default", "end", "flowchart", "graph", "href", "style", "subgraph"})
"""Words that Mermaid would read as its own."""


@dataclass(frozen=True, slots=True)
class Loose:
    """An arrow that still leads nowhere."""

    start: str
    label: str = ""


def diagram(definition: Definition) -> str:
    """The definition as a Mermaid flowchart."""
    return "\n".join(["flowchart TD", *(f"    {line}" for line in _lines(definition))]) + "\n"


def _lines(definition: Definition) -> Iterator[str]:
    yield _box(START, "([", _types((definition.starts_on,)), "])")
    drawing = _Drawing()
    ends, _ = drawing.draw(definition.nodes, (Loose(START),), (UNDONE,))
    drawing.lead(ends, COMPLETED)
    yield from drawing.boxes
    reached = {arrow.rpartition(" ")[2] for arrow in drawing.arrows}
    yield _box(COMPLETED, "([", "COMPLETED", "])")
    if UNDONE in reached:
        yield _box(UNDONE, "([", "COMPENSATED, or FAILED if nothing was done", "])")
    if STUCK in reached:
        yield _box(STUCK, "([", "STUCK", "])")
    yield from drawing.arrows


class _Drawing:
    def __init__(self) -> None:
        self.boxes: list[str] = []
        self.arrows: list[str] = []

    def draw(
        self, nodes: Sequence[Node], ways: tuple[Loose, ...], back: tuple[str, ...]
    ) -> tuple[tuple[Loose, ...], tuple[str, ...]]:
        """`ways` lead to the first of `nodes`, and `back` is what is undone next if that does not work out. Returns the
        same for whatever follows."""
        for node in nodes:
            here = _id(node.name)
            self.lead(ways, here)
            ways = (Loose(here),)
            if isinstance(node, Branch):
                self.boxes.append(_box(here, "{", node.name, "}"))
                ways, back = self._paths(node, back)
            elif isinstance(node, Wait):
                self.boxes.append(_box(here, "[/", f"{node.name}<br/>waits for {_types(node.done_on)}", "/]"))
                late = f"late: {lasting(node.deadline)}"
                self._dashed(here, late, back if node.when_late == "undo" else (STUCK,))
            else:
                self.boxes.append(_step(here, node))
                self._dashed(here, _why_back(node), back)
                if node.pivot or (node.when_dead == "wait" and not node.after_pivot):
                    self._dashed(here, "no answer", (STUCK,))
                if node.undo is not None:
                    back = (here,)
        return ways, back

    def lead(self, ways: Sequence[Loose], to: str) -> None:
        for way in ways:
            self.arrows.append(f"{way.start} --> {_said(way.label)}{to}")

    def _paths(self, branch: Branch, back: tuple[str, ...]) -> tuple[tuple[Loose, ...], tuple[str, ...]]:
        ends: list[Loose] = []
        backs: list[str] = []
        for label, path in branch.paths.items():
            ways, behind = self.draw(path, (Loose(_id(branch.name), label),), back)
            ends += ways
            backs += [one for one in behind if one not in backs]
        return tuple(ends), tuple(backs)

    def _dashed(self, start: str, why: str, targets: Sequence[str]) -> None:
        if why:
            self.arrows += [f"{start} -.-> {_said(why)}{target}" for target in targets]


def _step(here: str, step: Step) -> str:
    said = f"{step.name}<br/>{_types(step.done_on)}"
    if step.pivot:
        return _box(here, "{{", f"{said}<br/>point of no return", "}}")
    if step.undo is not None:
        said += f"<br/>undo: {_types(step.undone_on)}"
    return _box(here, "[", said, "]")


def _why_back(step: Step) -> str:
    """What leads from a step to those before it."""
    whys = ["refused"] if step.refused_on else []
    if step.undo is not None:
        whys.append("undone")
    elif not step.is_final and step.when_dead == "undo":
        whys.append("no answer")
    return " or ".join(whys)


def _box(name: str, left: str, text: str, right: str) -> str:
    return f'{name}{left}"{_safe(text)}"{right}'


def _said(label: str) -> str:
    return f'|"{_safe(label)}"| ' if label else ""


def _safe(text: str) -> str:
    return text.replace('"', "#quot;")


def _id(name: str) -> str:
    return f"{name}_" if name in TAKEN else name


def _types(replies: Sequence[Reply]) -> str:
    return " or ".join(event_type_of(reply).name for reply in replies)


def lasting(time: timedelta) -> str:
    """In words: 5 days, 1 hour 30 minutes."""
    seconds = time.seconds + time.microseconds / 1_000_000
    counts = [
        (time.days, "day"),
        (int(seconds // 3600), "hour"),
        (int(seconds % 3600 // 60), "minute"),
        (seconds % 60, "second"),
    ]
    return " ".join(f"{count:g} {word}{'' if count == 1 else 's'}" for count, word in counts if count)

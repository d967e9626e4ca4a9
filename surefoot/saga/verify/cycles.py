"""Whether a graph has a way back. Pure."""

from collections.abc import Iterable
from itertools import pairwise

Edge = tuple[int, int]


def first_circle(edges: Iterable[Edge]) -> list[Edge] | None:
    """The edges of a circle, if there is any. Walks in depth, without recursion: ways are long."""
    ways: dict[int, list[int]] = {}
    for origin, target in edges:
        ways.setdefault(origin, []).append(target)
    finished: set[int] = set()
    for start in ways:
        if start in finished:
            continue
        on_way = {start}
        stack = [(start, iter(ways[start]))]
        while stack:
            at, targets = stack[-1]
            following: int | None = next(targets, None)
            if following is None:
                stack.pop()
                on_way.discard(at)
                finished.add(at)
            elif following in on_way:
                way = [node for node, _ in stack]
                circle = [*way[way.index(following) :], following]
                return list(pairwise(circle))
            elif following not in finished:
                on_way.add(following)
                stack.append((following, iter(ways.get(following, ()))))
    return None

"""JSON looked at without reading it: bare NaNs, and depth."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.events.text import has_non_finite, is_nested_deeper
from tests.support.corpus import each_of

values = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.sampled_from(["NaN", '"Infinity\\', "[{", "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@each_of(
    "raw",
    [b"NaN", b"-Infinity", b'{"a":NaN}', b'["NaN",NaN]', b'["\\"",NaN]', b'["\\\\",Infinity]', b'["\\\\\\"",NaN,"x"]'],
)
def test_a_bare_nan_or_infinity_is_seen(raw: bytes) -> None:
    assert has_non_finite(raw)


@each_of(
    "raw",
    [
        b'"NaN"',
        b'{"NaN":"Infinity"}',
        b'["\\"NaN"]',
        b'["\\\\","NaN"]',
        b'{"thing_id":"NaN","x":1e999}',
        b'{"thing_id":"NaN","x":' + b"9" * 5_000 + b"}",
        b'{"thing_id":"NaN","x":' + b"[" * 1_100 + b"]" * 1_100 + b"}",
    ],
)
def test_one_within_a_text_is_none(raw: bytes) -> None:
    assert not has_non_finite(raw)


@given(values)
def test_a_nan_is_seen_wherever_it_is(value: Any) -> None:
    assert has_non_finite(json.dumps(value).encode()) == _has_non_finite(value)


def _has_non_finite(value: Any) -> bool:
    match value:
        case float():
            return value != value or value in (float("inf"), float("-inf"))
        case list():
            return any(map(_has_non_finite, value))
        case dict():
            return any(map(_has_non_finite, value.values()))
        case _:
            return False


@given(values)
def test_depth_is_that_of_lists_and_objects_within_each_other(value: Any) -> None:
    raw, depth = json.dumps(value).encode(), _depth(value)
    assert not is_nested_deeper(raw, depth)
    assert depth == 0 or is_nested_deeper(raw, depth - 1)


def _depth(value: Any) -> int:
    match value:
        case list():
            return 1 + max(map(_depth, value), default=0)
        case dict():
            return 1 + max(map(_depth, value.values()), default=0)
        case _:
            return 0


def test_many_brackets_beside_each_other_or_in_a_text_are_not_deep() -> None:
    assert not is_nested_deeper(b"[" + b"[]," * 1_000 + b"{}]", 2)
    assert not is_nested_deeper(b'"' + b"[{" * 1_000 + b'"', 0)


@pytest.mark.parametrize(
    "raw",
    [
        b'"NaN' + b'\\"' * 500_000,
        b'"NaN' + b"\\" * 1_000_001,
        b'NaN"' + b'""' * 500_000,
        b"[]" * 500_000,
        b"]" * 1_000_000,
        b'{"' * 500_000,
    ],
    ids=["escaped quotes", "backslashes", "quotes", "brackets", "closing brackets", "texts"],
)
def test_a_megabyte_of_anything_is_judged_soon(raw: bytes) -> None:
    started = time.thread_time()
    has_non_finite(raw)
    is_nested_deeper(raw, 200)
    assert time.thread_time() - started < 0.5

"""The weekly report: the same facts are the same text, and nothing from an event is more than text in it."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from surefoot.dlq.upkeep.report import (
    ConsumerFacts,
    Decision,
    GroupFacts,
    ReportFacts,
    escaped,
    last_week,
    report_path,
    report_text,
    span,
)
from surefoot.events.text import has_forbidden

SINCE, UNTIL = datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC)
STOCK = ConsumerFacts(
    "stock",
    new=12,
    replayed=5,
    discarded=4,
    superseded=1,
    open=7,
    held_keys=3,
    oldest_open=datetime(2026, 11, 10, 6, 30, tzinfo=UTC),
    median_to_resolution=timedelta(hours=2, minutes=5),
    discards=(Decision("By ada, approved by bob: a test order", 3),),
    groups=(GroupFacts("0123456789abcdef", "order.placed", "There is no article 7.", 6, 2),),
)
EXPECTED = """\
# Dead letters from 2026-11-09 00:00 UTC to 2026-11-16 00:00 UTC

| consumer | new | replayed | discarded | superseded | open at the end | keys held |
|---|---:|---:|---:|---:|---:|---:|
| (letters that could not be read) | 1 | 0 | 0 | 0 | 0 | 0 |
| stock | 12 | 5 | 4 | 1 | 7 | 3 |

## (letters that could not be read)

- New: 1
- Settled: 0 replayed, 0 discarded, 0 superseded
- Still open: none
- Keys whose later events wait: 0

## stock

- New: 12
- Settled: 5 replayed, 4 discarded, 1 superseded
- Half of those were settled within 2 h 5 min of their first failure
- Still open: 7; the oldest since 2026-11-10 06:30 UTC (5 d 17 h)
- Keys whose later events wait: 3

### Groups with most open

| open | new | event | what it says | group |
|---:|---:|---|---|---|
| 6 | 2 | order.placed | There is no article 7. | 0123456789abcdef |

### Discarded, by whom and why

- 3 letters. By ada, approved by bob\\: a test order
- 1 more, for other reasons
"""


def test_a_week_is_told_consumer_by_consumer() -> None:
    assert report_text(ReportFacts(SINCE, UNTIL, [STOCK, ConsumerFacts("", new=1)])) == EXPECTED


def test_the_order_of_the_facts_does_not_matter() -> None:
    one, other = ConsumerFacts("a", new=1), ConsumerFacts("b", open=2, oldest_open=SINCE)
    assert report_text(ReportFacts(SINCE, UNTIL, [one, other])) == report_text(ReportFacts(SINCE, UNTIL, [other, one]))


def test_a_quiet_week_is_said_to_be_one() -> None:
    assert "None came, none was decided, none is open." in report_text(ReportFacts(SINCE, UNTIL, []))


@given(st.text(alphabet=st.characters(), max_size=80))
@example("[click](https://evil.example/) ![x](y) <img src=x onerror=alert(1)> `code` **b** | cell | # not a heading")
@example("1. one\n- two\n# three\n\n    code\n> quote\n~~~\n***")
@example("&lt;b&gt; &#64;team @team https://evil.example www.evil.example a\\|b")
@example("- - -")
@example("\u2028line\x85line\x0bline")
def test_a_text_from_an_event_shows_as_itself_and_nothing_else(text: str) -> None:
    for before in ("- ", "- 3 letters. ", "", "| a | "):
        after = " |\n|---|---|" if before.startswith("|") else ""
        html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(f"{before}{escaped(text)}{after}")
        tags = set(re.findall(r"<(/?\w+)", html))
        assert tags <= {
            "ul",
            "/ul",
            "li",
            "/li",
            "p",
            "/p",
            "table",
            "/table",
            "thead",
            "/thead",
            "tr",
            "/tr",
            "th",
            "/th",
        }
    shown = unescape(MarkdownIt("commonmark").render(f"x {escaped(text)}")).strip()
    assert shown == f"<p>{' '.join(('x ' + _plain(text)).split())}</p>"


def test_a_long_text_is_cut_and_a_name_that_is_markup_stays_a_name() -> None:
    assert escaped("a" * 400) == "a" * 300 + "…"
    facts = ReportFacts(SINCE, UNTIL, [ConsumerFacts("[x](javascript:alert(1))|y", new=1)])
    html = MarkdownIt("gfm-like", {"linkify": False}).render(report_text(facts))
    assert "<a" not in html
    assert html.count("<td") == 7


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=59.6), "1 min"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(days=2, hours=3, minutes=4), "2 d 3 h"),
        (timedelta(seconds=-5), "0 s"),
    ],
)
def test_a_time_is_said_in_its_two_largest_units(time: timedelta, said: str) -> None:
    assert span(time) == said


@pytest.mark.parametrize(
    "now",
    [
        datetime(2026, 11, 16, tzinfo=UTC),
        datetime(2026, 11, 22, 23, 59, tzinfo=UTC),
        datetime(2026, 11, 23, 5, tzinfo=UTC).astimezone(tz=None) - timedelta(hours=6),
    ],
)
def test_the_last_week_ends_on_the_monday_before(now: datetime) -> None:
    assert last_week(now) == (SINCE, UNTIL)


def test_a_report_is_named_by_its_week() -> None:
    assert report_path(Path("x"), SINCE) == Path("x/dead-letters-2026-W46.md")
    assert report_path(Path("x"), datetime(2025, 12, 29, tzinfo=UTC)) == Path("x/dead-letters-2026-W01.md")


def _plain(text: str) -> str:
    readable = text.encode("utf-8", errors="replace").decode()
    return "".join(" " if has_forbidden(letter) else letter for letter in readable)

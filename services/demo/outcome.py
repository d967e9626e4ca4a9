"""How the demo ended: what was committed, what lies in the log, what took effect."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from services.demo.shop import Counts
from services.demo.watch import Watch
from surefoot.testing.checkers import Committed, Finding


@dataclass(frozen=True, slots=True)
class Outcome:
    counts: Counts
    watch: Watch
    committed: Sequence[Committed]
    findings: Sequence[Finding]
    set_aside: int
    twice: int
    letters: int
    orders: int

    @property
    def is_well(self) -> bool:
        return not self.findings and (self.set_aside, self.twice, self.letters) == (self.orders, 0, 1)

    def show(self, console: Console) -> None:
        table = Table(title="What was committed, what is in the log, what took effect", show_header=False)
        seen, distinct = len(self.watch.seen), len(self.watch.distinct)
        table.add_row("events committed", f"{len(self.committed):,}")
        table.add_row("events rolled back with their transaction", f"{self.counts.rolled_back:,}")
        table.add_row("distinct events in the log", f"{distinct:,}")
        table.add_row("repeats (a consumer drops them by their id)", f"{seen - distinct:,}")
        for violation, words in {
            "lost": "lost",
            "invented": "published though rolled back",
            "out_of_order": "keys out of commit order",
            "split_key": "keys in two partitions",
        }.items():
            _row(table, words, sum(finding.violation == violation for finding in self.findings), 0)
        _row(table, "orders the warehouse set aside", self.set_aside, self.orders)
        _row(table, "orders set aside twice", self.twice, 0)
        _row(table, "dead letters", self.letters, 1)
        console.print(table)
        for finding in self.findings[:10]:
            console.print(f"[red]✗[/] {finding.sentence}")
        if self.is_well:
            console.print(
                "[bold green]✓[/] Nothing was lost, nothing was invented, every key is in the order of its commits, "
                "every effect happened once."
            )


def _row(table: Table, words: str, count: int, expected: int) -> None:
    table.add_row(words, f"[bold {'green' if count == expected else 'red'}]{count:,}[/]")

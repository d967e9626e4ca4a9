"""How the fourth act ended: what the provider has taken, and what is on the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

CHARGES = 2


@dataclass(frozen=True, slots=True)
class Ended:
    sent: int = 0
    answers: tuple[int, ...] = ()
    """Different answers, for each charge."""
    at_provider: int = 0
    lines: int = 0
    """On the ledger."""
    published: int = 0
    findings: Sequence[str] = ()
    in_time: bool = True

    @property
    def is_well(self) -> bool:
        counted = (self.at_provider, self.lines, self.published)
        one_each = self.answers == (1,) * CHARGES
        return self.in_time and one_each and counted == (CHARGES,) * 3 and not self.findings


def show(ended: Ended, console: Console) -> None:
    table = Table(title="Two charges", show_header=False)
    table.add_row("requests sent", f"{ended.sent}", end_section=True)
    table.add_row("different answers to them", _well(sum(ended.answers)))
    table.add_row("charges at the provider", _well(ended.at_provider))
    table.add_row("lines on the ledger", _well(ended.lines))
    table.add_row("events published", _well(ended.published))
    console.print(table)
    for finding in ended.findings:
        console.print(f"[red]✗[/] {escape(finding)}")
    if ended.is_well:
        console.print("[bold green]✓[/] However often it was sent, and whoever died: each charge was taken once.")
    else:
        console.print("[bold red]✗[/] A charge was taken twice or not at all, or was answered in two ways.")


def _well(count: int) -> str:
    return f"[bold {'green' if count == CHARGES else 'red'}]{count}[/]"

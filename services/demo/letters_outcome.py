"""How the third act ended: the balance of events, and the labels that were printed."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from surefoot.testing.balance import Balance


@dataclass(frozen=True, slots=True)
class Ended:
    balance: Balance
    wanted: int
    printed: int
    twice: int
    in_time: bool

    @property
    def is_well(self) -> bool:
        return self.in_time and self.balance.adds_up and (self.printed, self.twice) == (self.wanted, 0)


def show(ended: Ended, console: Console) -> None:
    counted = ended.balance
    table = Table(title=f"The balance of events: {counted.consumer}", show_header=False)
    table.add_row("distinct events published", f"[bold]{counted.published:,}[/]")
    if counted.edited:
        table.add_row("  of them edited by an operator", f"{counted.edited:,}")
    for name in ("processed", "ignored", "barred", "parked", "dead", "superseded", "discarded"):
        table.add_row(name, f"{getattr(counted, name):,}")
    table.add_row("together", _well(counted.accounted, counted.published), end_section=True)
    table.add_row("labels printed", _well(ended.printed, ended.wanted))
    table.add_row("labels printed twice", _well(ended.twice, 0))
    console.print(table)
    if ended.is_well:
        console.print(
            "[bold green]✓[/] Every event is accounted for; every order that waited was sent, once, in its order."
        )
    else:
        console.print(
            "[bold red]✗[/] Not all of it was in time, an event is not accounted for, or a label is missing or double."
        )


def _well(count: int, expected: int) -> str:
    return f"[bold {'green' if count == expected else 'red'}]{count:,}[/]"

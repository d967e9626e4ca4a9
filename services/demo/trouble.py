"""What the demo shows of an event that fails: its key waits, others pass, and in the end it is a dead letter."""

import asyncio

from rich.console import Console
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.demo.shop import JAMMED_ORDER

LOOK_S = 0.1
_HEAD = text(
    "SELECT state::text, attempts, reason FROM surefoot.parked_events WHERE key = :key ORDER BY log_offset LIMIT 1"
)
_BEHIND = text("SELECT count(*) - 1 FROM surefoot.parked_events WHERE key = :key")
_PASSED = text("SELECT count(*) FROM shop.reservations")


class Trouble:
    """Follows the one order that cannot be set aside, and tells of it line by line."""

    def __init__(self, engine: AsyncEngine, console: Console) -> None:
        self._engine = engine
        self._console = console
        self.passed = 0
        self.waiting_behind = 0
        self.reason: str | None = None

    async def follow(self) -> None:
        """Until it is dead and something waits behind it."""
        told = 0
        while self.reason is None or self.waiting_behind < 1:
            await asyncio.sleep(LOOK_S)
            async with self._engine.connect() as connection:
                head = (await connection.execute(_HEAD, {"key": JAMMED_ORDER})).one_or_none()
                self.waiting_behind = await connection.scalar(_BEHIND, {"key": JAMMED_ORDER}) or 0
                self.passed = await connection.scalar(_PASSED) or 0
            if head is None:
                continue
            if head.state == "DEAD":
                self.reason = head.reason
            elif head.attempts > told:
                told = head.attempts
                self._say(f"[yellow]{JAMMED_ORDER} failed[/] (attempt {told} of 3); its key waits, the others go on")
        self._say(
            f"[red]{JAMMED_ORDER} is dead[/] ({self.reason}) and in order.events.dlq; {self.waiting_behind} event "
            f"waits behind it; {self.passed} other orders have been set aside"
        )

    def _say(self, line: str) -> None:
        self._console.print(line)

"""Notices that the event loop stands still, and names who blocks it.

A handler that blocks (a client without `await`, a long computation) holds up every partition of this member, its
heartbeats included: the log takes it for dead, and nothing in the loop can say why. So a thread beside it looks.
"""

import sys
import threading
from types import FrameType

import structlog

from surefoot.consumer_runtime.metrics import LOOP_STALLS
from surefoot.telemetry.pulse import BEAT_S, Pulse

log = structlog.get_logger("surefoot.consumer")
STALLED_S = 2.0
_LOOP = frozenset({"asyncio", "uvloop"})
_OURS = "surefoot"
_RUNTIME = "surefoot.consumer_runtime."


class Watchdog:
    def __init__(self, consumer: str, *, beat_s: float = BEAT_S, stalled_s: float = STALLED_S) -> None:
        self._consumer = consumer
        self._beat_s = beat_s
        self._stalled_s = stalled_s
        self._pulse = Pulse(beat_s=beat_s, frozen_s=stalled_s)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Watch the running loop, which runs in this thread."""
        self._thread_id = threading.get_ident()
        self._pulse.start()
        threading.Thread(target=self._watch, name=f"watchdog of {self._consumer}", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._pulse.stop()

    def _watch(self) -> None:
        told: float | None = None
        """The last beat before the standstill that was told of."""
        while not self._stopped.wait(self._beat_s):
            last, still_s = self._pulse.last_beat, self._pulse.still_s()
            if told is not None and last != told:
                log.info("the event loop runs again", consumer=self._consumer, stood_still_s=round(last - told, 1))
                told = None
            elif told is None and still_s > self._stalled_s:
                told = last
                self._tell(still_s)

    def _tell(self, still_s: float) -> None:
        LOOP_STALLS.labels(self._consumer).inc()
        frame = sys._current_frames().get(self._thread_id)
        where = "code that cannot be seen" if frame is None else blocker(frame)
        log.warning(
            f"the event loop has stood still for {still_s:.1f} s in {where}; handlers must not block: await what they "
            "wait for, or hand it to asyncio.to_thread. Meanwhile no partition here is worked on, and the log may take "
            "this member for dead",
            consumer=self._consumer,
        )


def blocker(innermost: FrameType) -> str:
    """The handler that a stack is in, and the place in a library where it waits, if that is another."""
    handler: FrameType | None = None
    inside: FrameType | None = None
    frame: FrameType | None = innermost
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if handler is not None and (package in _LOOP or module.startswith(_RUNTIME)):
            break  # what has called it
        if package not in _LOOP and package != _OURS:
            inside = inside or frame
            handler = frame
        frame = frame.f_back
    if handler is None or inside is None:
        return _place(innermost)
    return _place(handler) if handler is inside else f"{_place(handler)}, at {_place(inside)}"


def _place(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname} (line {frame.f_lineno})"

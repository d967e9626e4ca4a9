"""Ends everything that a test run has started when the run ends: interrupted, terminated or killed.

The controller ends its workers, and each worker its servers and children, through the product's own process guard. When
`make` is killed, the controller ends as well; when one worker is killed, the run is void and ends.
"""

import os
import signal
from typing import Any

import pytest

from surefoot.process_guard import end_with_me, watch_my_parent
from surefoot.process_guard.watcher import GRACE_VARIABLE

WATCH_PARENT = "SUREFOOT_TEST_WATCH_PARENT"
"""Set by the Makefile: the run's parent is `make`, and the run ends with it."""
GRACE_S = "1"
"""A chain of guards (controller, worker, `surefoot demo`, its children) must end within ten seconds."""


class RunGuard:
    def __init__(self) -> None:
        self._workers: dict[str, int] = {}

    def pytest_xdist_newgateway(self, gateway: Any) -> None:
        pid = gateway._io.popen.pid  # execnet has no public name for it
        self._workers[gateway.id] = pid
        end_with_me(pid)

    def pytest_testnodedown(self, node: Any, error: object) -> None:
        self._workers.pop(node.gateway.id, None)
        if error:
            self._end_workers()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        self._end_workers()

    def _end_workers(self) -> None:
        """At once: their guards clean up after them, and pytest-xdist would wait ten seconds for each."""
        for pid in self._workers.values():
            os.kill(pid, signal.SIGKILL)
        self._workers.clear()


def pytest_configure(config: pytest.Config) -> None:
    os.environ[GRACE_VARIABLE] = GRACE_S
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # What a shell runs in its background ignores Ctrl-C, and hands that on to its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.pop(WATCH_PARENT, ""):
        watch_my_parent()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunGuard(), "run_guard")

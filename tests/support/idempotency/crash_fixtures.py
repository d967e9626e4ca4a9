"""The ground of the idempotency tests as a fixture; a test module asks for it by
`pytest_plugins = ["tests.support.idempotency.crash_fixtures"]`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.idempotency import crash_harness as idempotency_ground
from tests.support.idempotency.crash_harness import Ground


@pytest.fixture
async def ground(database_url: str, tmp_path: Path) -> AsyncIterator[Ground]:
    async with idempotency_ground.laid(database_url, tmp_path) as ground:
        yield ground

"""The ground of the idempotency tests as a fixture; a test module asks for it by
`pytest_plugins = ["tests.crash.idempotency_fixtures"]`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash import idempotency_ground
from tests.crash.idempotency_ground import Ground


@pytest.fixture
async def ground(database_url: str, tmp_path: Path) -> AsyncIterator[Ground]:
    async with idempotency_ground.laid(database_url, tmp_path) as ground:
        yield ground

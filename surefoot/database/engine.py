"""SQLAlchemy engines on the addresses that every other part understands."""

from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from surefoot.database.connection import open_driver


def create_engine(
    url: str,
    *,
    name: str,
    settings: dict[str, str] | None = None,
    command_timeout: timedelta | None = None,
    **options: Any,
) -> AsyncEngine:
    """An engine. `name` shows up in pg_stat_activity, `settings` are those of each session, and `options` are
    SQLAlchemy's own."""

    async def opened() -> Any:
        return await open_driver(url, name=name, settings=settings, command_timeout=command_timeout)

    return create_async_engine("postgresql+asyncpg://", async_creator=opened, **options)

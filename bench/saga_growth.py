"""Whether sagas get slower with the number of those that are stored: the rate with ten times as many, beside before."""

from bench.saga_ground import Shop, open_for_business

TIMES = 10
_SAGAS = """
    INSERT INTO surefoot.saga_instances (saga_id, saga_type, definition_version, entity_id, start_event_id,
        correlation_id, status, reason, context, standing, version, created_at, updated_at, ended_at)
    SELECT gen_random_uuid(), saga_type, definition_version, 'copy-' || n || '-' || entity_id, start_event_id,
        correlation_id, status, reason, context, standing, version, created_at, updated_at, ended_at
    FROM surefoot.saga_instances, generate_series(2, $1::int) n WHERE entity_id LIKE 'order-%'"""
_HISTORY = """
    INSERT INTO surefoot.saga_history (saga_id, at, kind, step, direction, attempt, sentence, before, after, event_id)
    SELECT c.saga_id, h.at, h.kind, h.step, h.direction, h.attempt, h.sentence, h.before, h.after,
        gen_random_uuid()::text
    FROM surefoot.saga_instances c
    JOIN surefoot.saga_instances o ON o.entity_id = regexp_replace(c.entity_id, '^copy-[0-9]+-', '')
    JOIN surefoot.saga_history h ON h.saga_id = o.saga_id
    WHERE c.entity_id LIKE 'copy-%'"""


async def measure(where: Shop, sagas: int) -> float:
    before = await _rate(where, sagas)
    await where.connection.execute(_SAGAS, TIMES)
    await where.connection.execute(_HISTORY)
    await where.connection.execute("ANALYZE surefoot.saga_instances, surefoot.saga_history")
    await where.connection.execute("CHECKPOINT")
    return await _rate(where, sagas) / before


async def _rate(where: Shop, sagas: int) -> float:
    async with open_for_business(where):
        await where.warm_up(200)
        return await where.rate(sagas)

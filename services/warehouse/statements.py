"""The warehouse's tables, and the statements on them.

Of each article, `on_hand` pieces are on the shelf; of those some are `held` for checkout sessions and some `reserved`
for orders, and the rest is free. What is `quarantined` is not on the shelf. The database itself refuses a number below
zero and a promise of more than there is. `moves` is only ever added to: its sums are the stock
(`services/checks/stock.py` proves it).

Each statement does all of its command at once, or nothing: it locks the articles in sorted order, looks, changes them,
and writes down the moves. Rows are locked in the same order everywhere: the session's hold, then the order's
reservation, then stock by sku. So single commands cannot deadlock; batches of them can, and the consumer takes those
apart again. A move is written when its article's row has been changed, so the moves of an article are numbered in the
order in which they happened.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Index,
    MetaData,
    Table,
    Text,
    TextualSelect,
    event,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(schema="warehouse")

stock = Table(
    "stock",
    metadata,
    Column("sku", Text, primary_key=True),
    Column("on_hand", BigInteger, nullable=False, server_default="0"),
    Column("held", BigInteger, nullable=False, server_default="0"),
    Column("reserved", BigInteger, nullable=False, server_default="0"),
    Column("quarantined", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("on_hand >= 0 AND held >= 0 AND reserved >= 0 AND quarantined >= 0", name="never_negative"),
    CheckConstraint("held + reserved <= on_hand", name="never_promised_twice"),
    # Every reservation rewrites its row: room on the page lets Postgres do that without touching the index.
    postgresql_with={"fillfactor": 70},
)
holds = Table(
    "holds",
    metadata,
    Column("checkout_session_id", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("lines", JSONB, nullable=False, comment="[{sku, quantity}], one for each article"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("order_id", Text, comment="the order that took it, or gave it back"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("state IN ('HELD', 'TAKEN', 'EXPIRED', 'RELEASED')", name="known_state"),
)
Index("holds_to_expire", holds.c.expires_at, postgresql_where=text("state = 'HELD'"))
reservations = Table(
    "reservations",
    metadata,
    Column("order_id", Text, primary_key=True),
    Column("reservation_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("lines", JSONB, nullable=False, comment="[{sku, quantity}], one for each article"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("state IN ('RESERVED', 'RELEASED', 'SHIPPED')", name="known_state"),
)
returned = Table(
    "returned",
    metadata,
    Column("return_id", Text, primary_key=True),
    Column("place", Text, nullable=False),
    Column("lines", JSONB, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("place IN ('SHELF', 'QUARANTINE')", name="known_place"),
    comment="Where what came back was put: once, whoever asks again.",
)
inspections = Table(
    "inspections",
    metadata,
    Column("return_id", Text, primary_key=True),
    Column("verdict", Text, nullable=False, comment="a row written beforehand decides what the inspection will find"),
    Column("remark", Text, nullable=False, server_default=""),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("verdict IN ('APPROVED', 'DAMAGED', 'REJECTED')", name="known_verdict"),
)
moves = Table(
    "moves",
    metadata,
    Column("move_id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("sku", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("reference", Text, nullable=False, comment="the session, order, return or delivery it was for"),
    Column("on_hand", BigInteger, nullable=False, server_default="0", comment="by how much it changed"),
    Column("held", BigInteger, nullable=False, server_default="0"),
    Column("reserved", BigInteger, nullable=False, server_default="0"),
    Column("quarantined", BigInteger, nullable=False, server_default="0"),
    CheckConstraint(
        "cause IN ('received', 'held', 'hold_expired', 'hold_released', 'reserved', 'released', 'shipped', "
        "'restocked', 'quarantined')",
        name="known_cause",
    ),
)


def _after_creation(statement: str) -> None:
    event.listen(metadata, "after_create", DDL(statement))  # type: ignore[no-untyped-call]  # SQLAlchemy left it so


_after_creation("""
CREATE OR REPLACE FUNCTION warehouse.keep_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'warehouse.moves is only ever added to: write a move that sets it right instead.';
END $$
""")
_after_creation("""
CREATE OR REPLACE TRIGGER moves_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON warehouse.moves
FOR EACH STATEMENT EXECUTE FUNCTION warehouse.keep_moves()
""")


_WANTED = "SELECT * FROM unnest(CAST(:skus AS text[]), CAST(:quantities AS bigint[])) AS line (sku, quantity)"

# `kept` is what the session holds of an article already: it is free for its own order.
_LOOK = """
locked AS (
    SELECT stock.*, asked.quantity, asked.kept, on_hand - held - reserved + asked.kept AS free
    FROM warehouse.stock JOIN asked ON asked.sku = stock.sku
    ORDER BY stock.sku FOR UPDATE OF stock
), able AS (
    SELECT NOT EXISTS (SELECT FROM existing)
        AND count(*) FILTER (WHERE free >= quantity) = (SELECT count(*) FROM asked) AS yes
    FROM locked
)"""


def _new(**changes: str) -> str:
    """The whole row anew, from the version that is locked. A plain `held = held + 1` is first worked out on the version
    that the statement saw when it began, and the constraints are checked on that: they would refuse, now and then, what
    is right by the time the row is ours (tried)."""
    columns = ("on_hand", "held", "reserved", "quarantined")
    return ", ".join(f"{name} = locked.{name} {changes.get(name, '')}".rstrip() for name in columns)


_MISSING = """
    ARRAY(
        SELECT asked.sku FROM asked LEFT JOIN locked ON locked.sku = asked.sku
        WHERE locked.sku IS NULL OR locked.free < asked.quantity ORDER BY 1
    ) AS missing,
    (SELECT count(*) FROM asked) > (SELECT count(*) FROM locked) AS unknown,
    (SELECT count(*) FROM asked) AS asked,
    (SELECT count(*) FROM changed) AS changed"""

HOLD = text(f"""
WITH existing AS (
    SELECT state, lines, expires_at FROM warehouse.holds WHERE checkout_session_id = :session_id
), asked AS (
    SELECT sku, quantity, 0 AS kept FROM ({_WANTED}) AS wanted
), {_LOOK}, changed AS (
    UPDATE warehouse.stock SET {_new(held="+ locked.quantity")} FROM locked, able
    WHERE stock.sku = locked.sku AND able.yes RETURNING stock.sku, locked.quantity
), made AS (
    INSERT INTO warehouse.holds (checkout_session_id, state, lines, expires_at)
    SELECT :session_id, 'HELD', CAST(:lines AS jsonb), clock_timestamp() + make_interval(secs => :hold_s)
    FROM able WHERE able.yes RETURNING expires_at
), noted AS (
    INSERT INTO warehouse.moves (sku, cause, reference, held)
    SELECT sku, 'held', :session_id, quantity FROM changed ORDER BY sku
)
SELECT able.yes, existing.state, existing.lines, coalesce(existing.expires_at, made.expires_at) AS expires_at,
    {_MISSING}
FROM able LEFT JOIN existing ON true LEFT JOIN made ON true
""").columns(lines=JSONB)

RESERVE = text(f"""
WITH hold AS (
    SELECT lines FROM warehouse.holds WHERE checkout_session_id = :session_id AND state = 'HELD' FOR UPDATE
), existing AS (
    SELECT state, lines, reservation_id FROM warehouse.reservations WHERE order_id = :order_id
), wanted AS ({_WANTED}), kept AS (
    SELECT line.sku, line.quantity FROM hold, jsonb_to_recordset(hold.lines) AS line (sku text, quantity bigint)
), asked AS (
    SELECT coalesce(wanted.sku, kept.sku) AS sku, coalesce(wanted.quantity, 0) AS quantity,
           coalesce(kept.quantity, 0) AS kept
    FROM wanted FULL JOIN kept ON kept.sku = wanted.sku
), {_LOOK}, changed AS (
    UPDATE warehouse.stock SET {_new(held="- locked.kept", reserved="+ locked.quantity")} FROM locked, able
    WHERE stock.sku = locked.sku AND able.yes RETURNING stock.sku, locked.quantity, locked.kept
), taken AS (
    UPDATE warehouse.holds SET state = 'TAKEN', order_id = :order_id FROM able
    WHERE checkout_session_id = :session_id AND state = 'HELD' AND able.yes
), made AS (
    INSERT INTO warehouse.reservations (order_id, reservation_id, state, lines)
    SELECT :order_id, :reservation_id, 'RESERVED', CAST(:lines AS jsonb) FROM able WHERE able.yes
), noted AS (
    INSERT INTO warehouse.moves (sku, cause, reference, held, reserved)
    SELECT sku, 'reserved', :order_id, -kept, quantity FROM changed ORDER BY sku
)
SELECT able.yes, existing.state, existing.lines, existing.reservation_id, {_MISSING},
    (SELECT state FROM warehouse.holds WHERE checkout_session_id = :session_id) AS hold_state
FROM able LEFT JOIN existing ON true
""").columns(lines=JSONB)

LINES_OF_HOLD = text("SELECT lines FROM warehouse.holds WHERE checkout_session_id = :session_id").columns(lines=JSONB)


def _ending(gone: str, cause: str, **changes: str) -> TextualSelect:
    """Something that kept stock ends: `gone` takes it out of its state and returns (reference, name, lines)."""
    names = ", ".join(changes)
    values = ", ".join(f"{sign}quantity" for sign in changes.values())
    sets = _new(**{name: f"{sign} locked.quantity" for name, sign in changes.items()})
    return text(f"""
WITH {gone}, line AS (
    SELECT gone.reference, line.sku, line.quantity
    FROM gone, jsonb_to_recordset(gone.lines) AS line (sku text, quantity bigint)
), total AS (
    SELECT sku, CAST(sum(quantity) AS bigint) AS quantity FROM line GROUP BY sku
), locked AS (
    SELECT stock.*, total.quantity FROM warehouse.stock JOIN total ON total.sku = stock.sku
    ORDER BY stock.sku FOR UPDATE OF stock
), changed AS (
    UPDATE warehouse.stock SET {sets} FROM locked WHERE stock.sku = locked.sku RETURNING stock.sku
), noted AS (
    INSERT INTO warehouse.moves (sku, cause, reference, {names})
    SELECT line.sku, '{cause}', reference, {values} FROM line JOIN changed ON changed.sku = line.sku
    ORDER BY reference, sku
)
SELECT reference, name, lines FROM gone
""").columns(lines=JSONB)


def _reservation(state: str) -> str:
    return f"""gone AS (
    UPDATE warehouse.reservations SET state = '{state}' WHERE order_id = :order_id AND state = 'RESERVED'
    RETURNING order_id AS reference, reservation_id AS name, lines
)"""


RELEASE = _ending(_reservation("RELEASED"), "released", reserved="-")
SHIP = _ending(_reservation("SHIPPED"), "shipped", on_hand="-", reserved="-")
RELEASE_HOLD = _ending(
    """gone AS (
    UPDATE warehouse.holds SET state = 'RELEASED', order_id = :order_id
    WHERE checkout_session_id = :session_id AND state = 'HELD'
    RETURNING checkout_session_id AS reference, checkout_session_id AS name, lines
)""",
    "hold_released",
    held="-",
)
# A hold that somebody is just taking is left to him: if he does not take it, the next round finds it again.
EXPIRE = _ending(
    """due AS (
    SELECT checkout_session_id FROM warehouse.holds WHERE state = 'HELD' AND expires_at <= now()
    ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
), gone AS (
    UPDATE warehouse.holds SET state = 'EXPIRED' FROM due
    WHERE holds.checkout_session_id = due.checkout_session_id
    RETURNING holds.checkout_session_id AS reference, holds.checkout_session_id AS name, lines
)""",
    "hold_expired",
    held="-",
)

_ARRIVING = """changed AS (
    INSERT INTO warehouse.stock (sku, on_hand, quarantined) SELECT sku, shelf, apart FROM line ORDER BY sku
    ON CONFLICT (sku) DO UPDATE
    SET on_hand = stock.on_hand + excluded.on_hand, quarantined = stock.quarantined + excluded.quarantined
    RETURNING sku
), noted AS (
    INSERT INTO warehouse.moves (sku, cause, reference, on_hand, quarantined)
    SELECT line.sku, :cause, :reference, shelf, apart FROM line JOIN changed ON changed.sku = line.sku ORDER BY sku
)"""
RECEIVE = text(f"""
WITH line AS (SELECT sku, quantity AS shelf, 0 AS apart FROM ({_WANTED}) AS wanted), {_ARRIVING}
SELECT count(*) FROM line
""")
PUT_AWAY = text(f"""
WITH put AS (
    INSERT INTO warehouse.returned (return_id, place, lines) VALUES (:reference, :place, CAST(:lines AS jsonb))
    ON CONFLICT DO NOTHING RETURNING place
), line AS (
    SELECT sku, CASE place WHEN 'SHELF' THEN quantity ELSE 0 END AS shelf,
           CASE place WHEN 'SHELF' THEN 0 ELSE quantity END AS apart
    FROM put, ({_WANTED}) AS wanted
), {_ARRIVING}
SELECT count(*) FROM put
""")
INSPECT = text("""
WITH written AS (
    INSERT INTO warehouse.inspections (return_id, verdict, remark) VALUES (:return_id, :verdict, :remark)
    ON CONFLICT DO NOTHING RETURNING verdict, remark
)
SELECT verdict, remark FROM written
UNION ALL
SELECT verdict, remark FROM warehouse.inspections WHERE return_id = :return_id AND NOT EXISTS (SELECT FROM written)
""")

"""Publish an event in your own transaction: commit, and it reaches the log; roll back, and it never does.

    from surefoot import outbox

    async with AsyncSession(engine) as session, session.begin():
        session.add(order)
        outbox.add(session, OrderPlaced(order_id=order.id, total=order.total))

`add` checks at once (an undeclared type, data that does not fit, money as float, a NUL, too many bytes: one clear error
each, and your transaction is still usable) and buffers; the rows are written just before your commit.
"""

from surefoot.outbox.bare import Outbox, OutboxTransaction, add, transaction

__all__ = ["Outbox", "OutboxTransaction", "add", "transaction"]

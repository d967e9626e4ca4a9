"""Surefoot: events that are published if, and only if, your transaction commits, in the order of the commits.

What people import: `surefoot.events` (declare event types), `surefoot.outbox` (publish them in your own transaction).
"""

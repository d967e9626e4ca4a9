"""Surefoot: events that are neither lost nor doubled, for services that move money and goods.

What people import: `surefoot.events` (declare event types), `surefoot.outbox` (publish them in your own transaction).
"""

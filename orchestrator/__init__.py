"""The orchestrator: runs sagas. Store, timers, operators' verbs, read API; the order and the return saga."""

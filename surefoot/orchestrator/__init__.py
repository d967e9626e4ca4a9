"""Running sagas: reading replies, deciding, timers, and what operators decide."""

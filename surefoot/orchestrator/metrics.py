"""What an orchestrator counts."""

from prometheus_client import Counter, Gauge

STARTED = Counter("surefoot_sagas_started", "Sagas that have begun.", ["saga"])
ENDED = Counter("surefoot_sagas_ended", "Sagas that have ended, or got stuck, by status.", ["saga", "status"])
DECISIONS = Counter("surefoot_saga_decisions", "Lines written into the history.")
IGNORED = Counter("surefoot_saga_events_ignored", "Events that concern no saga: no such saga, or no answer.", ["why"])
OPEN = Gauge("surefoot_sagas_open", "Sagas under way, by status.", ["saga", "status"])
OLDEST = Gauge("surefoot_saga_oldest_stuck_seconds", "How long the longest stuck saga has been stuck.")
TIMERS_FIRED = Counter("surefoot_saga_timers_fired", "Timers that counted, by kind.", ["kind"])
TIMERS_POSTPONED = Counter("surefoot_saga_timers_postponed", "Timers that did not count yet, and why.", ["why"])
OUTAGES = Counter("surefoot_saga_outages", "Times that the timers found the database or the log away.")

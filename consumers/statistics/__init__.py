"""Live statistics: a worker that counts what goes over the topics, minute by minute, for people who watch.

It is the one part built on Faust, and it does no business work: Faust loses an event whose handler raises, which is
harmless here and nowhere else. `counting` and `answers` decide and know no Faust; the rest does.
"""

from datetime import timedelta

KEPT = timedelta(minutes=60)
"""How far back the statistics reach."""

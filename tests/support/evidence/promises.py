"""The promises of Surefoot, by number. A test says which of them it shows: `@pytest.mark.promise("P1", "P3")`."""

PROMISES = {
    "P1": "A committed change's event is published; a rolled-back change's event never is.",
    "P2": "An event's effect on a consumer happens at most once, however often the event is delivered.",
    "P3": "Events of one source, topic and key take effect in the order of their commits.",
    "P4": "Every saga ends: done, undone, or stuck in front of an operator.",
    "P5": "No event is dropped: what was published equals what is accounted for, for each consumer.",
    "P6": "A poison event delays its own key only; an outage burns no attempt and cancels no saga.",
    "P7": "A replay, an edit, a skip or a discard is a recorded decision, and happens once.",
    "P8": "A request with the same key and body has its effect once, and gets the same bytes.",
}
WITHOUT_A_LOG = {"P8"}
"""Promises in which no event log takes part: they hold between HTTP and the database."""

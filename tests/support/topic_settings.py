"""Other settings for a declared topic, for a while: each test can have a topic of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from surefoot.events import Topic


def set_topic(topic: Topic, **settings: object) -> None:
    """Change a topic, although it is frozen. All event types that are declared on it go along."""
    for setting, value in settings.items():
        object.__setattr__(topic, setting, value)


@contextmanager
def topic_with(topic: Topic, **settings: object) -> Iterator[None]:
    """Change these settings of a topic, and restore them at the end."""
    before = {setting: getattr(topic, setting) for setting in settings}
    set_topic(topic, **settings)
    try:
        yield
    finally:
        set_topic(topic, **before)

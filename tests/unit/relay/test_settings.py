"""Settings that contradict each other are refused with a sentence."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from surefoot.relay.settings import RelaySettings


def test_the_defaults_fit_together() -> None:
    assert RelaySettings().lease == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heartbeat": timedelta(seconds=5)}, "too slow for a lease"),
        ({"lock_timeout": timedelta(seconds=10)}, "must be shorter than the lease"),
        ({"poll_min": timedelta(seconds=1)}, "longer than poll_max"),
        ({"retry_min": timedelta(minutes=1)}, "longer than retry_max"),
    ],
)
def test_what_cannot_work_together_is_refused(change: dict[str, timedelta], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        RelaySettings.model_validate(change)


def test_the_environment_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFOOT_RELAY_MAX_ATTEMPTS", "2")
    monkeypatch.setenv("SUREFOOT_RELAY_LEASE", "PT20S")
    settings = RelaySettings()
    assert (settings.max_attempts, settings.lease) == (2, timedelta(seconds=20))

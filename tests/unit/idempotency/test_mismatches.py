"""A tenant that uses its keys for other requests again and again is told of, and labels are bounded."""

from surefoot.idempotency.upkeep.alerts import MOST_A_MINUTE, MismatchWatch, TenantLabels
from surefoot.telemetry.alerts import Alert, Alerts


class Heard(Alerts):
    def __init__(self) -> None:
        super().__init__()
        self.tenants: list[str] = []

    async def raise_alert(self, alert: Alert) -> None:
        self.tenants.append(alert.details["tenant"])


async def test_ten_within_a_minute_are_an_alert_and_nine_are_not() -> None:
    heard = Heard()
    watch = MismatchWatch(heard)
    for _ in range(MOST_A_MINUTE - 1):
        await watch.seen("shop")
        await watch.seen("other")
    assert heard.tenants == []
    await watch.seen("shop")
    assert heard.tenants == ["shop"]
    await watch.seen("shop")
    assert heard.tenants == ["shop"], "said once for ten"


def test_tenants_beyond_the_bound_share_a_label() -> None:
    labels = TenantLabels(most=2)
    assert [labels.label(tenant) for tenant in ("a", "b", "c", "a", "d")] == ["a", "b", "other", "a", "other"]

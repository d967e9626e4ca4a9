"""`python -m outbox_publisher`: the shop's relay, until Ctrl-C. Its options are those of `surefoot relay`."""

from outbox_publisher.settings import ShopRelaySettings
from surefoot.cli.deployment import run_deployment
from surefoot.cli.workers import relay


def main() -> None:
    run_deployment(relay, ShopRelaySettings)


if __name__ == "__main__":
    main()

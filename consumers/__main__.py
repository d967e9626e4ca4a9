"""`python -m consumers [SERVICE…]`: the consumers of the shop's services, all or those named, until Ctrl-C."""

from consumers.command import run_services
from consumers.settings import ShopConsumerSettings
from surefoot.cli.deployment import run_deployment


def main() -> None:
    run_deployment(run_services, ShopConsumerSettings)


if __name__ == "__main__":
    main()

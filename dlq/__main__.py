"""`python -m dlq`: the shop's dead-letter service, until Ctrl-C. Its options are those of `surefoot dlq serve`."""

from dlq.settings import ShopAccessSettings, ShopDlqSettings
from surefoot.cli.deployment import run_deployment
from surefoot.cli.dlq.service import serve


def main() -> None:
    run_deployment(serve, ShopDlqSettings, ShopAccessSettings)


if __name__ == "__main__":
    main()

"""`python -m orchestrator`: the shop's sagas, until Ctrl-C. Its options are those of `surefoot orchestrate`.

Without arguments it runs the sagas that the project file names: `orchestrator.sagas:sagas`.
"""

from orchestrator.settings import ShopOrchestratorSettings
from surefoot.cli.deployment import run_deployment
from surefoot.cli.workers import orchestrate


def main() -> None:
    run_deployment(orchestrate, ShopOrchestratorSettings)


if __name__ == "__main__":
    main()

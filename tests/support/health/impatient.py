"""`surefoot`, and the limit of its liveness is two seconds: no test waits for half a minute."""

from surefoot.cli.main import main
from surefoot.telemetry import health

STALLED_S = 2.0

if __name__ == "__main__":
    health.STALLED_S = STALLED_S
    main()

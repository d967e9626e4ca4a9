"""What a server with idempotent requests must do, case by case, seen from outside. The contract is in README.md."""

# Surefoot. `make` alone lists what there is.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# How many processes run tests. Most tests wait more than they work, so there are more of them than cores.
WORKERS ?= 4
# For example: make test ARGS='-k relay'
ARGS ?=
# `exec`, so that no shell stands between: a run ends when `make`, its parent, is killed.
PYTEST = exec $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)
ALONE = $(PYTEST) --target alone -n 0
test test-fast test-deep test-alone drills soak: export SUREFOOT_TEST_WATCH_PARENT = 1
soak: export SUREFOOT_SOAK = 1
# Tests and demo start hundreds of processes, which would compile our own code anew each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo up test test-fast test-deep test-alone drills evidence lint format bench bench-relay bench-consume bench-poison bench-saga bench-dlq bench-idempotency bench-startup bench-quick counts soak kafka clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  \033[1m%-17s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Surefoot needs Python 3.11 or newer on the PATH; install it, or say make PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Surefoot needs Python 3.11 or newer; $(PYTHON) is older. Say make PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Installing into $(VENV) (once; about a minute) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(READY) ## Install everything into .venv

demo: $(READY) ## Watch events, sagas and dead letters on the embedded database; ends by itself
	@$(BIN)/surefoot demo

up: $(READY) ## Run the whole platform on the embedded database until Ctrl-C
	@$(BIN)/surefoot up

test: $(READY) ## Every promise on real Postgres and real Kafka (about twelve minutes)
	$(PYTEST) --target test

test-fast: $(READY) ## The tests that need no broker and little time (under a minute)
	$(PYTEST) --target fast --timeout 60

test-deep: $(READY) ## What `make test` leaves out: removed protections, the other log, proofs, crowds
	$(PYTEST) --target deep
	$(if $(ARGS),,$(ALONE))

test-alone: $(READY) ## Tests that others would disturb; `make test-deep` ends with them
	$(ALONE)

drills: $(READY) ## Long matrices (up to 90 minutes); writes bench/results/drills.json
	$(PYTEST) --target drills --timeout 3600

evidence: $(READY) ## Write the tables of docs/testing.md from what the last `make test test-deep` has shown
	$(BIN)/python -m tests.support.evidence.table

lint: $(READY) ## Style, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/surefoot schemas check

format: $(READY) ## Put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: bench-relay bench-consume bench-poison bench-saga bench-dlq bench-idempotency bench-startup ## Every benchmark

bench-relay: $(READY) ## The relay beside a textbook worker and a bare producer, on Kafka
	$(BIN)/python -m bench.relay

bench-consume: $(READY) ## The consumer runtime beside a textbook consumer and a bare batch loop, on Kafka
	$(BIN)/python -m bench.consume

bench-poison: $(READY) ## What one poisoned key costs the other keys of a consumer, on Kafka
	$(BIN)/python -m bench.poison

bench-saga: $(READY) ## Whole sagas beside the floor that the database alone sets, on both logs
	$(BIN)/python -m bench.saga

bench-dlq: $(READY) ## Pages of dead letters with 10,000 and with 1,000,000 of them
	$(BIN)/python -m bench.dlq

bench-idempotency: $(READY) ## What idempotency adds to a request, beside the same endpoint without it
	$(BIN)/python -m bench.idempotency

bench-startup: $(READY) ## The processor time that starting a command takes, beside typer alone
	$(BIN)/python -m bench.startup

bench-quick: $(READY) ## Is the working tree slower than another commit (BASE=ref)? Three minutes
	@$(BIN)/python -m bench.quick $(if $(BASE),--base $(BASE)) $(if $(JSON),--json)

counts: $(READY) ## How large the tree is, and how many files one must open to follow an event (OF=ref)
	@$(BIN)/python -m bench.counts $(if $(OF),--of $(OF)) $(if $(JSON),--json) $(if $(FILES),--files)

soak: $(READY) ## The crash and order tests at full size, for a long while
	exec $(BIN)/python -m pytest tests/crash --timeout 3600

kafka: $(READY) ## A Kafka broker on this machine until Ctrl-C; prints its address
	@$(BIN)/python -m surefoot.testing.kafka

clean: ## Remove what was installed and made here
	rm -rf $(VENV) .surefoot .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

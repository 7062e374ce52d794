# railgun: everything a checkout can do. `make help` explains each target.
# Needs only make and Python >= 3.11; the rest is set up in .venv and in the per-user cache of railgun.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first of these that is 3.11 or newer. Set PYTHON=… to choose another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 \
	&& $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& echo $$p && break; done)

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.installed
CODE := railgun tests topologies
CHAOS_ROUNDS ?= 30
CHAOS_CONSUMER_ROUNDS ?= 20
CHAOS_SOURCING_ROUNDS ?= 20
CHAOS_BUCKET_ROUNDS ?= 20
CHAOS_PIPELINE_ROUNDS ?= 5
CHAOS_SINK_ROUNDS ?= 5
SOAK_MINUTES ?= 30
SOAK_OUT ?= .railgun/soak
# The rounds of `make test` are always the same: a lost disk, a kill -9, a frozen worker; with consumers a frozen worker,
# a kill -9, a restart of the broker; with sources a kill -9, a restart of the broker, a kill -9 of both workers. `make chaos` draws its own.
CHAOS_SEED ?= 1
FUZZ_SECONDS ?= 600
# `make differ`: how many random sequences, and which.
DIFFER_SEQUENCES ?= 2000
DIFFER_SEED ?= 1
ARGS ?=

.PHONY: help run test lint format twins types doors unit rules fuzz differ chaos soak bench lock clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z.]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(READY) ## Start a local Kafka and a worker, show a short tour, then serve until Ctrl-C (ARGS="--port 9092" …)
	$(PY) -m railgun.cli.main up --tour $(ARGS)

test: lint types doors unit ## Everything that must pass: lint, types, doors, and all tests with a few chaos rounds

lint: $(READY) ## Check style and formatting with ruff, and that the sync classes are the twins of the async ones
	$(PY) -m ruff check $(wildcard $(CODE))
	$(PY) -m ruff format --check $(wildcard $(CODE))
	$(PY) -m tests.twins --check

format: $(READY) ## Format the code and fix what ruff can fix
	$(PY) -m ruff check --fix $(wildcard $(CODE))
	$(PY) -m ruff format $(wildcard $(CODE))

twins: $(READY) ## Write the sync classes of the facade anew from the async ones
	$(PY) -m tests.twins

types: $(READY) ## Check types with mypy, strict
	$(PY) -m mypy

doors: $(READY) ## Check that the rooms import each other through their doors only (import-linter)
	$(VENV)/bin/lint-imports

unit: $(READY) ## Run the tests alone, in three processes (ARGS="-k publish" …)
	RAILGUN_CHAOS_ROUNDS=3 RAILGUN_CHAOS_CONSUMER_ROUNDS=3 RAILGUN_CHAOS_SOURCING_ROUNDS=3 RAILGUN_CHAOS_BUCKET_ROUNDS=3 \
		RAILGUN_CHAOS_PIPELINE_ROUNDS=1 RAILGUN_CHAOS_SINK_ROUNDS=1 RAILGUN_CHAOS_SEED=$(CHAOS_SEED) $(PY) -m tests.parts $(ARGS)

rules: $(READY) ## List the rules of docs/rules that no passing test shows
	$(PY) -m tests.rules $(ARGS)

fuzz: $(READY) ## Random histories through the rules, short of memory and with failing drains (FUZZ_SECONDS=60 for less)
	$(PY) -m tests.fuzz --seconds $(FUZZ_SECONDS) $(ARGS)

chaos: $(READY) ## Kill, stop and restart parts under load: 30 rounds, 20 with consumers, 20 with sources, 20 with buckets, 5 with each pipeline that writes and with a sink (CHAOS_ROUNDS=100 for more)
	RAILGUN_CHAOS_ROUNDS=$(CHAOS_ROUNDS) RAILGUN_CHAOS_CONSUMER_ROUNDS=$(CHAOS_CONSUMER_ROUNDS) \
		RAILGUN_CHAOS_SOURCING_ROUNDS=$(CHAOS_SOURCING_ROUNDS) RAILGUN_CHAOS_BUCKET_ROUNDS=$(CHAOS_BUCKET_ROUNDS) \
		RAILGUN_CHAOS_PIPELINE_ROUNDS=$(CHAOS_PIPELINE_ROUNDS) RAILGUN_CHAOS_SINK_ROUNDS=$(CHAOS_SINK_ROUNDS) $(PY) -m pytest -m chaos --timeout=3600 $(ARGS)

differ: $(READY) ## Compare railgun with nats-server by random operations; every difference must be an agreed one (DIFFER_SEED=2 for others)
	$(PY) -m tests.differ --sequences $(DIFFER_SEQUENCES) --seed $(DIFFER_SEED) $(ARGS)

soak: $(READY) ## Run two workers under a steady load for SOAK_MINUTES=30 with a takeover every minute; what grows fails (plot in SOAK_OUT)
	SOAK_MINUTES="$(SOAK_MINUTES)" SOAK_OUT="$(SOAK_OUT)" $(PY) -m tests.soak $(ARGS)

bench: $(READY) ## Measure railgun beside nats-server and raw Kafka; results in docs/benchmarks
	$(PY) -m tests.benchmarks $(ARGS)

lock: $(READY) ## Renew requirements.lock from pyproject.toml
	$(PY) -m uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
		--extra worker --extra embedded --extra avro --extra spark --extra sinks --extra dev --extra bench \
		--annotation-style line --custom-compile-command "make lock" --output-file requirements.lock

clean: ## Remove the virtual environment, caches and local broker data of this checkout
	rm -rf $(VENV) .railgun build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find railgun tests topologies -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp is written last, so an interrupted set-up starts again; a changed lock installs the difference.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "railgun needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python." >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "setting up $(VENV) (a minute on a new machine) …"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(PY) -m compileall -q railgun
	@touch $@

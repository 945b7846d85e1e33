# txmq: `make help` lists what can be made. Needs Python >= 3.11 and Java >= 17; everything else is fetched into .venv.
.DEFAULT_GOAL := help
.PHONY: help setup demo docs test test-fast test-rest test-long test-real check bench clean model faults mutants fuzz hostile memory lock licences ranges sbom vulnerabilities

.NOTPARALLEL:

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.txmq-ready
BENCH_READY := $(VENV)/.txmq-bench-ready
# Only what supply/*.txt names, with those hashes; no code of a package runs but that of pyspark, which has no wheel.
QUIETLY := --quiet --disable-pip-version-check
FROM_LOCK := $(QUIETLY) --require-hashes --only-binary :all: --no-binary pyspark --no-build-isolation --use-pep517
PIP := $(BIN)/python -m pip install
TOOLS := build/supply
TOOLS_READY := $(TOOLS)/.ready
LOCK = $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-config $(UPGRADE)
UPGRADE ?=
SIZE ?= small
ONLY ?=
FAST := $(wildcard tests/plain tests/rules)
# The files that take longest first: --dist loadfile gives a whole file to one worker.
PASSES := $(wildcard tests/jobs tests/fuzz tests/docs tests/end_to_end tests/model tests/session tests/sources tests/views)
CASES ?= 200000
LINES ?= 50000
SEED ?= 1

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with txmq, its tools and Delta's jars (instant when done)

$(READY): pyproject.toml supply/build.txt supply/dev.txt
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "txmq needs Python 3.11 or newer and finds no $(PYTHON): install it, or say make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "txmq needs Python 3.11 or newer and $(PYTHON) is older: install one, or say make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m txmq_lib.spark.java
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	  echo "$(PYTHON) cannot make a virtual environment: install its venv module (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "Setting up $(VENV): packages, then Delta's jars (once; a few minutes)" >&2
	@$(PIP) $(FROM_LOCK) --requirement supply/build.txt
	@$(PIP) $(FROM_LOCK) --requirement supply/dev.txt
	@$(PIP) $(QUIETLY) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m txmq_lib.spark.jars >&2
	@touch $@

demo: setup ## Land, reconcile and audit the store of a real broker; show what is in it
	@$(BIN)/txmq demo

docs: setup ## The documentation as a site in build/docs, with every link checked; lists those that lead elsewhere
	$(BIN)/properdocs build --strict --config-file docs/properdocs.yml
	@echo "Links that lead elsewhere, not followed:"
	@grep --recursive --only-matching --no-filename --extended-regexp '\]\(https?://[^)]*\)' \
	  README.md ARCHITECTURE.md CHANGELOG.md docs/pages | sort --unique || true

test: check test-fast test-rest ## Checks, the fast tests, whole passes, spark-submit, the README

test-fast: setup ## Tests without Spark, then those of the rules: under two minutes
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(FAST)

test-rest: setup
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=12 -m "not real and not long" $(PASSES)

test-long: setup ## The whole passes that take half a minute and more each: all captures, every instant, as time goes by
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "long and not real" $(PASSES)

model: setup ## 10,000 random histories through whole passes against the plain Python model (minutes)
	TXMQ_HISTORIES=10000 $(BIN)/pytest tests/end_to_end/test_passes_model.py tests/model

faults: setup ## Kill real driver processes at every write and at 200 random instants; full disk and the like (hours)
	PYTHONPATH=tests:tests/support $(BIN)/python tests/faults $(FAULTS)

mutants: setup ## Break each rule on purpose and see the tests go red (half an hour)
	$(BIN)/python tests/mutants $(MUTANTS)

test-real: setup ## Tests against real servers: PostgreSQL and Chromium (Debian), RocketMQ (jars by Maven), S3 (MinIO by Go)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
	  apt-get update --quiet --quiet && apt-get install --yes --quiet --quiet --no-install-recommends postgresql; } || { \
	  echo "test-real needs PostgreSQL and could not install it: as root, apt-get install postgresql" >&2; exit 1; }
	@command -v chromium >/dev/null 2>&1 || { \
	  apt-get update --quiet --quiet && apt-get install --yes --quiet --quiet --no-install-recommends chromium; } || { \
	  echo "test-real needs Chromium and could not install it: as root, apt-get install chromium" >&2; exit 1; }
	@command -v mvn >/dev/null && command -v javac >/dev/null || { \
	  echo "test-real needs Maven and a JDK for RocketMQ: on Debian and Ubuntu, apt install maven default-jdk-headless" >&2; exit 1; }
	@command -v go >/dev/null || test -x /usr/local/go/bin/go || { \
	  echo "test-real needs Go for MinIO: on Debian and Ubuntu, apt install golang-go" >&2; exit 1; }
	@command -v spin >/dev/null 2>&1 && command -v gcc >/dev/null 2>&1 || { \
	  apt-get update --quiet --quiet && apt-get install --yes --quiet --quiet --no-install-recommends spin gcc libc6-dev; } || { \
	  echo "test-real needs Spin and could not install it: as root, apt-get install spin gcc libc6-dev" >&2; exit 1; }
	@command -v rsync >/dev/null 2>&1 && command -v rclone >/dev/null 2>&1 || { \
	  apt-get update --quiet --quiet && apt-get install --yes --quiet --quiet --no-install-recommends rsync rclone; } || { \
	  echo "test-real needs rsync and rclone and could not install them: as root, apt-get install rsync rclone" >&2; exit 1; }
	$(BIN)/pytest -m real tests

fuzz: setup ## Hostile input at every surface (CASES=200000 LINES=50000 SEED=1): tried and escaped, a line each
	PYTHONPATH=tests:tests/support $(BIN)/python -m fuzz --cases $(CASES) --lines $(LINES) --seed $(SEED)

hostile: setup ## Memory of landing hostile input, a line each, with the default settings (HOSTILE="--only line"; minutes)
	PYTHONPATH=tests:tests/support $(BIN)/python -m hostile $(HOSTILE)

memory: setup ## Memory of serve over 1,000 cycles, idle and with input (hours; MEMORY="--idle" for the short part)
	PYTHONPATH=tests:tests/support $(BIN)/python tests/memory $(MEMORY)

check: setup ## ruff, mypy, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: $(TOOLS_READY) ## Resolve supply/*.txt anew where pyproject.toml changed (UPGRADE=--upgrade for newer packages below)
	$(LOCK) --group build --output-file supply/build.txt
	$(LOCK) pyproject.toml --extra postgresql --output-file supply/run.txt
	$(LOCK) pyproject.toml --extra postgresql --group dev --constraints supply/run.txt --output-file supply/dev.txt
	$(LOCK) --group bench --output-file supply/bench.txt
	$(LOCK) --group supply --output-file supply/tools.txt

ranges: ## The wheel, the demo and fast tests with the oldest and the newest packages that pyproject.toml allows (minutes)
	@$(PYTHON) supply/ranges.py $(ENDS)

licences: $(READY) $(TOOLS_READY) ## List the licences of all packages in supply/licences.md; fails for one it does not know
	@$(TOOLS)/bin/python supply/licences.py $(BIN)/python

sbom: $(READY) $(TOOLS_READY) ## What a run consists of, packages and jars, as CycloneDX in build/sbom.json
	@$(TOOLS)/bin/python supply/sbom.py $(BIN)/python "$$($(BIN)/python -c 'from txmq_lib.spark.jars import *; print(jars_dir())')" build/sbom.json

vulnerabilities: $(TOOLS_READY) ## Known vulnerabilities of all packages; says so, and fails, where nobody could be asked
	@$(TOOLS)/bin/python supply/vulnerabilities.py

$(TOOLS_READY): supply/tools.txt supply/bench.txt
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install $(FROM_LOCK) --requirement supply/tools.txt --requirement supply/bench.txt
	@touch $@

bench: $(BENCH_READY) ## Benchmarks against plain Spark, DuckDB and Polars; SIZE=full for the large ones, ONLY=backfill for one
	@$(BIN)/python -m tests.bench --size $(SIZE) $(addprefix --only ,$(ONLY))

$(BENCH_READY): $(READY) supply/bench.txt
	@$(PIP) $(FROM_LOCK) --requirement supply/bench.txt
	@touch $@

clean: ## Remove all that was made here, .venv too; a warehouse stays
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf demo-warehouse spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

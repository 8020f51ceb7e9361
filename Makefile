# Everything runs in the project's own virtual environment; nothing outside this folder is touched.
# `make help` lists the targets. VENV=..., PYTHON=... and JOBS=... may be given on the command line.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
# Pages are tested in Chromium: auto leaves these tests out, and says so, where there is none;
# required (continuous integration) lets them fail.
BROWSER ?= auto
BIN := $(VENV)/bin
PEERS ?= runs/peers
PIP := bin/python -m pip --disable-pip-version-check install
PIP_INSTALL := $(VENV)/$(PIP) -c constraints.txt

# Small tensors gain nothing from threads, and test workers would fight for the cores.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint format study report bench peers engines clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed  ## set up, then audit the reference, a planted bug and transformers
	@echo "==> demo: about a minute; results go to runs/demo/"
	@$(BIN)/python simulations/demo.py --out runs/demo

test: $(VENV)/.installed  ## set up, then run the tests (JOBS=2 worker processes)
	@echo "==> tests: a few minutes"
	@if [ "$(BROWSER)" = auto ] && ! command -v chromedriver >/dev/null; then \
		echo "==> tests/browser are left out: no chromedriver" \
			"(Debian: apt-get install -y chromium chromium-driver)"; \
		export SPECVERIFY_NO_BROWSER=1; \
	fi; \
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

lint: $(VENV)/.installed-dev  ## set up, then ruff and mypy --strict
	@echo "==> lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.installed-dev  ## let ruff rewrite the sources
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

study: $(VENV)/.installed  ## set up, then run the longer statistical studies
	@echo "==> studies: tests marked 'study'"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m study

report: $(VENV)/.installed  ## set up, then run the quick studies and draw everything in reports/
	@echo "==> report: a few minutes"
	@$(BIN)/python simulations/make_report.py

bench: $(VENV)/.installed  ## set up, then time everything beside its peers, into reports/bench/
	@echo "==> bench: some nine minutes; leave the machine alone meanwhile"
	@$(BIN)/specverify bench --out reports/bench

peers: $(PEERS)/.installed  ## install further peers, then time verification beside them, too
	@echo "==> peers: some five minutes; leave the machine alone meanwhile; reports/bench/peers/"
	@$(PEERS)/bin/specverify bench --only verification --out reports/bench/peers

engines: $(VENV)/.installed  ## install and audit released engines, each in an environment of its own
	@echo "==> engines: half an hour or more, resumable; reports/engines/"
	@$(BIN)/python simulations/engines.py

clean:  ## remove the virtual environment, caches and runs
	rm -rf $(VENV) runs .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make the set-up idempotent: pip runs again only after one of these files changed.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "==> installing specverify and what its tests need into $(VENV) (a minute or two, once)"
	@$(PIP_INSTALL) -e ".[test]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "==> installing the linters into $(VENV)"
	@$(PIP_INSTALL) -q -e ".[dev]"
	@touch $@

# vLLM 0.9 is the last whose sampler has a path without kernels; single files of it are loaded.
$(PEERS)/.installed: pyproject.toml constraints.txt
	@echo "==> installing the peers into $(PEERS) (some minutes, once)"
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/$(PIP) -c constraints.txt -e ".[hf,speculative-decoding]"
	@$(PEERS)/$(PIP) --no-deps vllm==0.9.2
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "==> creating the virtual environment $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

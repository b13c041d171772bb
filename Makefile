# Each target makes or updates .venv first, when pyproject.toml or constraints.txt changed.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready

# On few or busy cores two OpenMP threads can be many times slower than one.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Each worker begins with half of the tests in order, so that most modules make their expensive fixtures once.
WORKERS := --numprocesses 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow faults fuzz lint format docs bench bench-quick against build clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "halfsure needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PY) -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[dev,tables,xlsx,tensorboard,images,text,onnx,hub]'
	@touch $@

demo: $(READY)  ## train on digits with 40 labels, with and without unlabeled ones; a table and a report
	$(VENV)/bin/halfsure demo

test: lint  ## check style and types, run every fast test; under 6 minutes on two cores
	$(PY) -m pytest $(WORKERS) --quiet -m "not slow and not network"

test-slow: $(READY)  ## the other tests: long properties, kills, several processes, compilation, downloads; under 20 minutes
	$(PY) -m pytest $(WORKERS) --quiet --hypothesis-profile long -m "slow or network or hypothesis"

faults: $(READY)  ## have some 400 accidents happen to runs, resume them, compare every bit; then long runs; about ten minutes
	$(PY) -m tests.faults
	$(PY) -m tests.stress.long

fuzz: $(READY)  ## give every reader, and the command line, 100,000 random and damaged inputs
	$(PY) -m tests.fuzz

lint: $(READY)  ## check style and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(READY)  ## rewrite the code in the project's style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(READY)  ## build the documentation into site/
	$(VENV)/bin/zensical build --clean --strict

bench: $(READY)  ## measure losses, views, steps and scale against their peers, as ratios; under 15 minutes
	$(PY) benchmarks/bench.py

bench-quick: $(READY)  ## the same for losses and views only; under a minute
	$(PY) benchmarks/bench.py --quick

against: $(READY)  ## compare bits and speed with an older tree: version 0.1, or any revision by REV=...; under 6 minutes
	$(PY) benchmarks/against.py $(REV)

build: $(READY)  ## build the wheel and install it into an empty environment
	rm -rf dist build
	$(PY) -m build --outdir dist
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --constraint constraints.txt dist/halfsure-*.whl
	cd build && empty/bin/python -c 'import halfsure, torch; print("halfsure", halfsure.__version__, "installs and runs:", halfsure.sparsemax(torch.tensor([1.0, 0.5, -1.0])))'

clean:  ## remove everything that can be made again
	rm -rf $(VENV) build dist site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

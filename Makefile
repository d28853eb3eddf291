# Two commands do all the set-up on a machine with Python 3.11 or newer: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python -m

# The models here are small: several threads would wait for one another more than they work.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test check format lint types clean

demo: $(VENV)/.installed
	$(RUN) src.demo

test: $(VENV)/.installed-test
	$(RUN) pytest -n 2 --dist worksteal $(ARGS)

check: format lint types test

format: $(VENV)/.installed-test
	$(RUN) ruff format --check src tests benchmarks

lint: $(VENV)/.installed-test
	$(RUN) ruff check src tests benchmarks

types: $(VENV)/.installed-test
	$(RUN) mypy

$(BIN)/python:
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), 'Python 3.11 or newer is needed: make PYTHON=python3.11'"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-test: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) runs

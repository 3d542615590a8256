# Two commands do everything: `make demo` and `make test`. Both stand on `make setup`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

# Tests run side by side, one thread each: two processes with two threads each would fight over two cores.
export OMP_NUM_THREADS ?= 1
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types imports page page-check unit kernels browser bundle docs site pictures architectures format bench science peers release oldest newest clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## make .venv with everything; quick when nothing changed

$(STAMP): pyproject.toml constraints.txt src/whence/_version.py
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev --group docs --group science
	@touch $@

demo: setup ## explain texts and a picture with the built-in models, test one, and write whence-demo*
	$(BIN)/python scripts/demo.py

test: lint page unit ## check the style, the types, the house, and run all tests

SPELT := $(wildcard *.md *.cff Makefile *.yml) docs src tests scripts bench web/src $(wildcard notebooks)

lint: setup types imports ## what pre-commit runs, too
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell $(SPELT)

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

# Node is needed to change the page, not to use it: the built page is committed, and this checks that it is the build.
NODE := web/node_modules/.package-lock.json

$(NODE): web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund --silent
	@touch $@

page: setup ## check and test the page's source, and that the committed page is its build
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory page-check; \
	  elif test -n "$$CI"; then echo "CI must have Node 20 and npm" >&2; exit 1; \
	  else echo "no Node: the page's source is not checked"; fi

page-check: $(NODE)
	$(BIN)/python scripts/build_openapi.py --check
	$(BIN)/python scripts/check_bundle.py
	cd web && npm run --silent check && npm test --silent

bundle: setup $(NODE) ## build the page into src/whence/app/static, and its types from the server's description
	cd web && npm run --silent types && npm run --silent build

unit: setup browser ## run the tests alone
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# Tiles of one row of one head; Triton on CUDA or, slowly, in its interpreter.
KERNELS := $(BIN)/python -m pytest tests/parity tests/contract -n $(WORKERS) --dist loadgroup
kernels: setup ## run the golden and contract tests with the smallest tile, and with fused kernels where Triton is
	WHENCE_TILE_BYTES=1 $(KERNELS)
	@if $(BIN)/python -c "import triton" 2>/dev/null; then \
	  $(BIN)/python -c "import sys, torch; sys.exit(not torch.cuda.is_available())" || export TRITON_INTERPRET=1; \
	  WHENCE_KERNELS=fused $(KERNELS) tests/reference/test_kernel_twins.py; \
	  else echo "no Triton: fused kernels are not tested"; fi

browser: ## install Chromium from the system's packages, if it is missing and that is possible
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "no Chromium: the browser tests will be skipped"

docs: setup ## write the tables and pages that are computed: commands, cards, results
	$(BIN)/python scripts/build_docs.py

# Not --quiet, which would swallow the warnings that a strict build is to fail for.
site: setup ## build the documentation into build/site, with every warning an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: setup browser ## photograph the app and draw the maps that docs/ shows
	$(BIN)/python scripts/screenshots.py
	$(BIN)/python scripts/make_pictures.py

# bench/results/architectures.jsonl, from which `make docs` writes docs/reference/model-types.md. Some of them again:
# make architectures TYPES="bert xlnet"
architectures: setup ## try every class of transformers that can be made tiny: half an hour of one core
	$(BIN)/python scripts/architecture_sweep.py $(TYPES)

format: setup ## write the code the way the checks want it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup ## measure: explain against the bare forward + backward, and the cold start
	$(BIN)/python bench/explain.py
	$(BIN)/python bench/methods.py
	$(BIN)/python bench/metrics.py
	$(BIN)/python bench/audit.py
	$(BIN)/python bench/verdicts.py
	$(BIN)/python bench/precision.py
	$(BIN)/python bench/tiles.py
	$(BIN)/python bench/cold_start.py
	$(BIN)/python bench/app.py
	$(BIN)/python -m bench.run.throughput
	$(BIN)/python -m bench.run.wire

# One by one: make science-attcat, science-pets, ... SCIENCE holds options, such as SCIENCE="--limit 2 --device cpu", or for
# Jain & Wallace: make science-jain_wallace SCIENCE="--only 'sst-*' --seeds 1 --device cpu"
SCIENCES := truth shapes evaluation attcat eraser pets compare transformers tasks
science: science-jain_wallace $(SCIENCES:%=science-%) docs ## make all results of docs/science again; it wants a GPU, and hours

science-jain_wallace: setup
	$(BIN)/python -m bench.science.jain_wallace.prepare
	$(BIN)/python -m bench.science.jain_wallace.run $(SCIENCE)
	$(BIN)/python -m bench.science.jain_wallace.table --cells build/science/jain_wallace/cells

$(SCIENCES:%=science-%): science-%: setup
	$(BIN)/python -m bench.science.$* $(SCIENCE)

peers: setup ## hold whence and the libraries like it against one ruler, each in an environment of its own: an hour, and the network
	$(BIN)/python -m bench.peers $(PEERS)

release: setup ## build wheel and source distribution into dist/, and use them in clean environments: minutes, and the network
	$(BIN)/python scripts/release_check.py

oldest: setup ## run a selection of the tests with the oldest dependencies that pyproject.toml allows: gigabytes, once
	$(BIN)/python scripts/versions_check.py oldest

newest: setup ## run the same with the newest there are
	$(BIN)/python scripts/versions_check.py newest

clean: ## remove what was made here
	rm -rf .venv build dist web/node_modules whence-demo*.html whence-demo*.png .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

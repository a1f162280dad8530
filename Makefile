# Needs Python 3.11 or newer, git and make; uses uv where there is one. `make` alone lists the targets.

VENV ?= .venv
PYTHON ?= python3
DIALECT ?= 2026-07-28
MODE ?= personal
ARGS ?=
WORKERS ?= auto

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
STAMP := $(VENV)/.installed
comma := ,
# What a model sees of an app: its tools, their results and what they are made of; not its client.
APP_TOOLS := tools results attachments edit free_time moves read trash write
COMPLETE := $(subst $() ,$(comma),$(APP_TOOLS:%=nextcloud_mcp_server/apps/*/%.py))$(comma)nextcloud_mcp_server/auth/*,nextcloud_mcp_server/protocol/*,nextcloud_mcp_server/storage/*,nextcloud_mcp_server/tools/*
# Tests of PostgreSQL run where one is given, or Debian's can be started.
POSTGRES := $(if $(TEST_POSTGRES_URL),,$(if $(wildcard /usr/lib/postgresql/*/bin/initdb),.ci/postgres))
UNTESTED := $(if $(TEST_POSTGRES_URL)$(POSTGRES),,--omit='nextcloud_mcp_server/storage/postgres.py,nextcloud_mcp_server/storage/listener.py')
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
FAST := not (process or browser or postgres or clients)
SERVER := $(if $(NEXTCLOUD_HOST),,--sandbox)
export MODE
# The tests start hundreds of processes: each would compile our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo run test test-fast clients check style bench soak mutants views docs docs-check translations snapshots lock audit notes release

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) ## Install everything into .venv, from requirements.lock.

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make setup PYTHON=python3.12")'
	@echo "Installing into $(VENV) (once; a minute or two) ..."
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python "$(PYTHON)" "$(VENV)" && \
	  uv pip install --quiet --python "$(PY)" --require-hashes -r requirements.lock && \
	  uv pip install --quiet --python "$(PY)" --no-deps --no-build-isolation -e . ; \
	else \
	  $(PYTHON) -m venv "$(VENV)" && \
	  "$(PY)" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock && \
	  "$(PY)" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $@

demo: $(STAMP) ## Play the whole journey against the built-in sandbox (MODE=oidc|builtin, DIALECT=draft|2025-11-25|2026-07-28|text, BRIDGE=1).
	@$(BIN)/nextcloud-mcp-server demo --mode "$(MODE)" --dialect "$(DIALECT)" $(if $(BRIDGE),--bridge) $(ARGS)

run: $(STAMP) ## Start the server over HTTP, on NEXTCLOUD_HOST or else the sandbox (ARGS="--port 9000").
	@$(BIN)/nextcloud-mcp-server serve --transport http $(SERVER) $(ARGS)

test: $(STAMP) ## Run all tests that need nothing more; says what was skipped and why.
	$(POSTGRES) $(PY) -m pytest -rs -n $(WORKERS) --dist worksteal --cov --cov-report= $(ARGS)
	$(PY) -m coverage report --skip-covered $(UNTESTED)
	@# The aim is 99.9. Before 3.12 Python traces no call when an exception, such as a cancellation, is thrown into what a
	@# function awaits; coverage.py then loses the lines that follow there (as in protocol/hold.py, which 3.13 counts).
	$(PY) -m coverage report --skip-covered $(UNTESTED) --include='$(COMPLETE)' --precision=2 --fail-under=99.7

test-fast: $(STAMP) ## Run the tests of the modules that need no process, browser, PostgreSQL or coverage; for in between.
	$(PY) -m pytest -q -n logical --dist worksteal --hypothesis-profile few -m "$(FAST)" tests/unit tests/snapshots $(ARGS)

clients: $(STAMP) ## Play the journey with every client of docs/clients.md; installs them below .work (needs PyPI and npm).
	$(PY) -m pytest -rs -n 2 -m "clients or not clients" tests/conformance/test_foreign_clients.py tests/conformance/test_terminal_assistants.py $(ARGS)

check: $(STAMP) style docs-check ## Check style, types, layers and the printed documents.
	$(BIN)/lint-imports
	$(PY) -m pyright

style: $(STAMP) ## Check style alone, and the format of the code (a part of `check`).
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

bench: $(STAMP) ## Measure start, memory and speed beside a bare server, in one run (ARGS="--install").
	$(PY) -m tests.load --output docs/performance.md $(ARGS)

soak: $(STAMP) ## Let 50 users work for half an hour with faults, on PostgreSQL, and tell what was broken (ARGS="--minutes 5 --people 20").
	$(POSTGRES) $(PY) -m tests.load.soak $(ARGS)

mutants: $(STAMP) ## Take out one guard after the other, and see that a test notices (ARGS="--only auth/jwks --jobs 2").
	$(POSTGRES) $(PY) -m tests.mutants $(ARGS)

views: $(STAMP) ## See every page in each language, theme and width: axe, and pictures in .work/views.
	@mkdir -p .work/views
	EVERY_VIEW=.work/views $(PY) -m pytest -q tests/e2e -k every_page

docs: $(STAMP) ## Print .env.example, the tools' schemas and their pages in docs/ again, take docs/screenshots again.
	@$(PY) -c 'from nextcloud_mcp_server.settings.document import write; write(".")'
	@if command -v chromium >/dev/null 2>&1; then $(PY) -m tests.e2e.screenshots; \
	else echo "docs/screenshots left as they are: Chromium is not installed"; fi

docs-check: $(STAMP)
	@$(PY) -c 'from nextcloud_mcp_server.settings.document import check; check(".")'

snapshots: $(STAMP) ## Write the tools' schema snapshots again; look at the diff.
	UPDATE_SNAPSHOTS=1 $(PY) -m pytest -q -k snapshot

translations: $(STAMP) ## Bring the catalogues of the pages up to date with the English texts (ADD=it adds a language).
	@$(PY) -m tests.translations $(ADD)

lock: ## Resolve the three locks again: everything, the server alone, what builds the wheel (needs uv).
	$(COMPILE) --upgrade pyproject.toml --group dev -o requirements.lock
	$(COMPILE) pyproject.toml --extra postgres --extra metrics --extra tracing -c requirements.lock -o requirements-server.lock
	$(COMPILE) --group build -c requirements.lock -o requirements-build.lock

audit: $(STAMP) ## Ask the advisory database about the locked packages (needs the network).
	$(PY) -m pip_audit --disable-pip --require-hashes -r requirements.lock $(ARGS)

notes: $(STAMP) ## Print the notes of this version from CHANGELOG.md.
	@$(PY) -m release --notes-only $(ARGS)

release: $(STAMP) ## Write the wheel, the bundle, the SBOM, the notes and the entries of registries into dist (REPOSITORY=owner/name).
	@rm -rf dist
	@$(PY) -m hatchling build -t wheel -d dist >/dev/null
	@$(PY) -m release --notes-only $(ARGS) >dist/notes.md
	@$(PY) -m release --repository "$(REPOSITORY)" --wheel dist/*.whl --into dist $(ARGS)

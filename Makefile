# `make demo` and `make test` set themselves up in .venv on a fresh machine with Python >= 3.11,
# make and a C++ compiler. `make PYTHON=/path/to/python` picks the interpreter.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
# Without what Python keeps there: it is newer than an installation, which would be repeated.
NATIVE := $(shell find native -type f -not -path '*/__pycache__/*' 2>/dev/null)
BUILD_INPUTS := pyproject.toml $(NATIVE)
# CI compiles modules when they are first imported: most never are.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(CI),--no-compile)

# The first interpreter that runs, is recent enough and can create environments.
define FIND_PYTHON
for candidate in $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11 python3.14 python); do \
	if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
		>/dev/null 2>&1; then echo "$$candidate"; break; fi; \
done
endef

# Set in many containers: each of a thousand processes that tests start would compile all modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test thorough sanitized torch-tests cluster-tests mcp-tests instructions bench harm lint format docs site site-links viewer wheels packages emulated reproducible clean

help:  ## Show this help
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) \
		| while IFS='|' read -r target text; do printf '%-12s %s\n' "$$target" "$$text"; done

demo: $(VENV)/installed  ## Analyze a bundled recording and write its report
	@$(BIN)/warpline demo

# One more than processors, as many tests wait for a program.
WORKERS = $(shell expr $$(nproc) + 1)

test: $(VENV)/installed  ## Run all tests that need no GPU; browser tests where a browser is found
	@$(BIN)/python -m pytest $(if $(CI)$(if $(ARGS),,all),--numprocesses=$(WORKERS) --dist=worksteal) $(ARGS)

# After a change of the viewer or of reports, and before a release.
thorough: $(VENV)/installed  ## Run the further cases of tests, mostly of more recordings in a browser
	@$(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal -m thorough $(ARGS)

# CI checks addresses, with fewer random inputs. Run this after a change of native code.
sanitized: $(VENV)/installed  ## Check the native code with the sanitizers of addresses and of threads
	native/check_sanitized address
	native/check_sanitized thread

# Plain torch brings the CUDA libraries: gigabytes. Its wheel for the CPU is 0.2 GB:
# TORCH="torch==2.13.0 --index-url URL", or TORCH_PYTHON=PATH of an environment that has it.
TORCH ?= torch==2.13.0 numpy
TORCH_PYTHON ?= $(BIN)/python
torch-tests: $(VENV)/installed  ## Run the tests that need PyTorch, which it installs: TORCH_PYTHON=... has it
	@$(TORCH_PYTHON) -c 'import torch' 2>/dev/null || $(PIP_INSTALL) $(TORCH)
	@WARPLINE_AGENT="$$($(BIN)/python -c 'from warpline.capture.machine.agent import agent_library as a; print(a())')" \
		$(TORCH_PYTHON) -m pytest -m torch tests/pytorch $(ARGS)

cluster-tests: $(VENV)/installed  ## Run the tests that start a dask cluster, which it installs
	@$(BIN)/python -c 'import distributed' 2>/dev/null || $(PIP_INSTALL) 'distributed>=2024.1'
	$(BIN)/python -m pytest -m cluster tests/fleet $(ARGS)

mcp-tests: $(VENV)/installed  ## Run the tests that ask a server by the MCP SDK, which it installs
	@$(BIN)/python -c 'import mcp.server.lowlevel' 2>/dev/null || $(PIP_INSTALL) 'mcp>=2.3,<3'
	$(BIN)/python -m pytest -m mcp tests/mcp_tools $(ARGS)

bench: $(VENV)/installed  ## Measure Warpline beside other profilers: SIZES=... NSYS=... HTA=PYTHON PERFETTO=...
	@$(BIN)/python benchmarks/bench.py --folder build/bench $(if $(SIZES),--sizes $(SIZES)) \
		$(if $(NSYS),--nsys $(NSYS)) $(if $(HTA),--hta $(HTA)) \
		$(if $(PERFETTO),--perfetto $(PERFETTO)) $(ARGS)

instructions: $(VENV)/installed  ## Check that no small workload executes 5% more instructions (needs valgrind)
	@$(BIN)/python benchmarks/instruction_counts.py $(ARGS)

# Uses the Python that has the frameworks, not that of .venv: PYTHON=/path/to/python3.
harm:  ## Check that recording changes no program (needs a GPU, see docs/harm.md)
	@"$(or $(PYTHON),python3)" -m tests.gpu.harm $(ARGS)

lint: $(VENV)/lint-installed  ## Check style, types and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/lint-installed  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/installed  ## Write the generated pages and the output shown in the README
	$(BIN)/python native/raw/generate
	$(BIN)/python docs/generate.py

# Warnings are errors: a link that leads nowhere, a page that no section has.
SITE := build/site
SPHINX := $(BIN)/python -m sphinx --fail-on-warning --keep-going --jobs auto -c docs/website
site: $(VENV)/docs-installed  ## Check the spelling, and build the documentation site into build/site
	@$(BIN)/codespell *.md docs src/warpline
	@rm -rf $(SITE)
	@$(SPHINX) --quiet --fresh-env -d build/site-cache . $(SITE)
	@echo "$(SITE)/index.html"

# Those that are not there any more, by asking for each: the only target that needs a network.
site-links: $(VENV)/docs-installed  ## List the documentation's links to other sites, and try them
	@$(SPHINX) --quiet --builder linkcheck -d build/site-cache . build/site-links; \
		status=$$?; cat build/site-links/output.txt; exit $$status

viewer:  ## Rebuild the timeline after a change to viewer/ (needs npm)
	cd viewer && npm ci --silent && npm test && npm run build

# Another environment: the tools of a release are pinned, and tests do not need them.
RELEASE := build/release
MACHINES ?= x86_64,aarch64
wheels: $(RELEASE)/installed site  ## Build all packages into dist/: for old glibc, two machines, and the agent
	@$(RELEASE)/bin/python release/make_packages.py --output dist --machines "$(MACHINES)"

packages: wheels  ## Build all packages, check them and try them on all Pythons here
	@$(RELEASE)/bin/python release/check.py $(ARGS)

emulated: $(RELEASE)/installed  ## Check the native core for aarch64 by an emulator: QEMU=/path/to/qemu-aarch64
	@$(RELEASE)/bin/python release/check_emulated.py --emulator "$(or $(QEMU),qemu-aarch64)" $(ARGS)

reproducible: wheels  ## Build all packages twice, and compare their bytes
	@$(RELEASE)/bin/python release/make_packages.py --output build/again --machines "$(MACHINES)"
	diff -r dist build/again && echo "All packages have the same bytes twice."

$(RELEASE)/installed: release/requirements.txt | $(BIN)/python
	@echo "Installing the tools of a release into $(RELEASE)." >&2
	@$(BIN)/python -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check -r release/requirements.txt
	@touch $@

# The extra of what is installed already: nothing is built again.
$(VENV)/docs-installed: $(VENV)/installed
	@echo "Installing what the documentation site takes into $(VENV)." >&2
	@$(PIP_INSTALL) 'warpline[docs]'
	@touch $@

clean:  ## Remove the environment, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@python="$$($(FIND_PYTHON))"; \
	if [ -z "$$python" ]; then \
		echo "error: no Python >= 3.11 with the venv module found." >&2; \
		echo "hint: install one (Debian and Ubuntu: python3 and python3-venv)" \
			"or choose one: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$("$$python" --version), once." >&2; \
	"$$python" -m venv --clear $(VENV)

$(VENV)/installed: $(BUILD_INPUTS) | $(BIN)/python
	@echo "Installing Warpline and its test requirements into $(VENV)." >&2
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $@

# Includes what tests need: one installation where there is none.
$(VENV)/lint-installed: $(BUILD_INPUTS) | $(BIN)/python
	@echo "Installing Warpline, its test requirements and the checkers into $(VENV)." >&2
	@$(PIP_INSTALL) --editable '.[lint]'
	@touch $(VENV)/installed $@

# `make` prints what there is. Everything is made inside the checkout and its cache ($(CACHE)).
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
HOME ?= $(shell echo ~)
CACHE ?= $(or $(SWEYARD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sweyard)
CLUSTER ?= none
VENV := .venv
PY := $(VENV)/bin/python
UV := $(shell command -v uv 2>/dev/null || echo $(CACHE)/uv/bin/uv)
export SWEYARD_CACHE := $(CACHE)
export UV_CACHE_DIR := $(CACHE)/uv-cache
# What downloads for minutes shows how far it is, but in a log.
UNSEEN := $(shell [ -t 2 ] || echo --quiet)
export UV_PYTHON_INSTALL_DIR := $(CACHE)/uv-python
export MYPY_CACHE_DIR := $(CACHE)/mypy
# Else each process compiles anew what it imports of ours, and pytest what it rewrites: two seconds a start.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(PY) -m pytest -p tests.strict_skips -p tests.marked_files
# Of suites that run together each line is whole, and begins with its target.
NAMED = $(if $(TOGETHER),2>&1 | sed -u 's/^/[$@] /')
AXE_VERSION := 4.14.1
AXE_SHA256 := 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
AXE := $(CACHE)/axe-core-$(AXE_VERSION)/axe.min.js
EXAMPLE := examples/tiny/trainingrun.yaml
PIN := $(UV) pip compile --quiet --universal --no-emit-index-url --no-header --python-version 3.11 pyproject.toml

.PHONY: help
help: ## Print this list
	@echo "sweyard: reinforcement learning of software-engineering agents on Kubernetes"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo

$(CACHE)/uv/bin/uv:
	@echo "== uv is not installed: making one in $(CACHE)/uv"
	python3 -m venv $(CACHE)/uv && $(CACHE)/uv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check uv

# Two at once would clear each other's environment: the second waits, and then looks again (LOCKED) whether it lacks one.
ifeq ($(LOCKED),)
$(VENV)/.complete: requirements/dev.txt pyproject.toml
	@exec 9<.; if command -v flock >/dev/null; then flock --nonblock 9 || \
		{ echo "== another make is at work on $(VENV): waiting for it"; flock 9; }; fi; \
	$(MAKE) --no-print-directory LOCKED=1 $@
else
# Compiled once here: pods have the environment read-only, and where Python may write no bytecode each process would
# compile anew what it imports, which triples the start of an engine.
$(VENV)/.complete: requirements/dev.txt pyproject.toml | $(UV)
	@if [ -L $(VENV) ]; then echo "$(VENV) is a link, and what it leads to would be cleared: remove the link"; exit 1; fi
	@echo "== Python environment in $(VENV): about 2 minutes and 7 GB the first time, seconds afterwards"
	$(UV) venv --quiet --clear --python '>=3.11,<3.14' $(VENV)
	$(UV) pip sync $(UNSEEN) --compile-bytecode --python $(PY) requirements/dev.txt
	$(UV) pip install --quiet --no-deps --python $(PY) --editable .
	@touch $@
endif

.PHONY: venv
venv: $(VENV)/.complete ## Make the Python environment (.venv)

.PHONY: demo
demo: venv ## Train a small model to repair code; CLUSTER=none (4 to 6 min, default), native (10 min), kind or existing
	$(PY) -m sweyard_cli demo --cluster $(CLUSTER) --registry "$(REGISTRY)"

.PHONY: lint
lint: venv ## Formatting, lint, types, layering, generated files
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m sweyard_api.crd --check
	$(PY) -m sweyard_api.reference --check

.PHONY: fmt
fmt: venv ## Format and mend what can be mended
	$(VENV)/bin/ruff check --fix --quiet .
	$(VENV)/bin/ruff format .

.PHONY: test
test: tell-test lint docs test-browser ## All tests (Linux, root)
	@$(MAKE) --no-print-directory --jobs=2 TOGETHER=1 test-kubelet test-fast test-apiserver test-vllm test-docker
	@echo "all tests passed"

.PHONY: tell-test
tell-test:
	@echo "== all tests: about 40 minutes the first time, which builds a Kubernetes from source; 25 afterwards, on two cores"
	@echo "== two suites run at a time, since those on clusters wait for pods; each line says whose it is"

.PHONY: test-fast
test-fast: venv ## Unit and property tests: no cluster (root: some mount a small disk)
	$(PYTEST) -n 2 --dist worksteal -q -m "not (apiserver or kubelet or vllm or slow or gpu or docker or browser)" tests/trainer tests $(NAMED)

.PHONY: test-apiserver
test-apiserver: venv ## Tests against a real API server (built and started by them)
	$(PYTEST) -n 2 --dist loadgroup -q --only-marked apiserver -m "apiserver and not (slow or kubelet)" $(NAMED)

.PHONY: test-kubelet
test-kubelet: venv ## Tests on a real one-node cluster (built and started by them; Linux, root)
	$(PYTEST) -n 2 --dist loadgroup -q --only-marked kubelet -m "kubelet and not slow" $(NAMED)

.PHONY: test-vllm
test-vllm: venv ## Tests against a real vLLM server on CPU
	$(PYTEST) -n 2 --dist loadfile -q --only-marked vllm -m "vllm and not (slow or kubelet)" $(NAMED)

.PHONY: test-docker
test-docker: venv ## Tests of sandboxes in Docker, where an engine answers
	@if docker version >/dev/null 2>&1; then $(PYTEST) -q --only-marked docker -m docker $(NAMED); \
	else echo "no Docker engine answers: sandboxes in Docker are not tested"; fi

# Before those that make network interfaces: Chromium gives up what it is loading when one comes or goes.
.PHONY: test-browser
test-browser: venv ## Tests of the page in a browser, where Chromium is installed; its accessibility where npm is, too
	@if ! command -v chromium >/dev/null 2>&1; then echo "Chromium is not installed: the page is not tested in a browser"; \
	elif ! command -v npm >/dev/null 2>&1; then echo "npm is not installed: accessibility is not tested"; \
	$(PYTEST) -q --only-marked browser -m "browser and not axe" $(NAMED); \
	else $(MAKE) --no-print-directory $(AXE) && \
	SWEYARD_AXE=$(AXE) $(PYTEST) -q --only-marked browser -m browser $(NAMED); fi

# What judges accessibility: for tests alone, and no part of what is shipped.
$(AXE):
	@mkdir -p $(@D)
	cd $(@D) && npm pack --silent axe-core@$(AXE_VERSION) >/dev/null && tar -xzf axe-core-$(AXE_VERSION).tgz \
		--strip-components 1 package/axe.min.js && echo "$(AXE_SHA256)  axe.min.js" | sha256sum --check --quiet || { rm -f axe.min.js; exit 1; }

.PHONY: prove
prove: venv ## What takes longer: three-seed learning proof, kill matrix, 512 pods; dated results in docs (2 hours, root)
	@echo "== about 2 hours on two cores; one proof alone: $(PY) -m benchmarks.prove NAME (--help lists them)"
	$(PY) -m benchmarks.prove

.PHONY: crds
crds: venv ## Generate crds/*.yaml, the chart's copy and the reference's pages from the models
	$(PY) -m sweyard_api.crd
	$(PY) -m sweyard_api.reference

# In an environment of its own, kept by uv: what writes pages is no part of what is tested or shipped.
.PHONY: docs
docs: requirements/docs.txt | $(UV) ## Write the documentation as a site, into site/; fails on a warning
	NO_MKDOCS_2_WARNING=1 $(UV) run --quiet --no-project --python '>=3.11,<3.14' --with-requirements $< \
		mkdocs build --quiet --strict

.PHONY: requirements
requirements: venv ## Pin requirements/*.txt again from pyproject.toml
	$(PIN) --override requirements/overrides-cpu.txt --extra dev --extra cpu -o requirements/dev.txt
	$(PIN) --constraint requirements/dev.txt --extra cli -o requirements/cli.txt
	$(PIN) --extra operator -o requirements/operator.txt
	$(PIN) --extra cache-agent -o requirements/cache-agent.txt
	$(PIN) --extra docs -o requirements/docs.txt
	$(PIN) --override requirements/overrides-cpu.txt --constraint requirements/dev.txt --extra cpu --extra wandb -o requirements/trainer-cpu.txt
	$(PIN) --extra gpu --extra wandb -o requirements/trainer-gpu.txt

.PHONY: images
images: venv ## Build the small container images with docker or buildah (docs/gpu-run.md has all)
	$(PY) -m sweyard_cluster images build --all

.PHONY: image-trainer
image-trainer: venv ## Build the trainer's image and try it: 10 minutes, gigabytes (Docker, or Linux and root)
	$(PYTEST) -v -s -m slow tests/cluster/test_trainer_image.py

.PHONY: cluster
cluster: venv ## Start the native one-node Kubernetes (Linux, root)
	$(PY) -m sweyard_cluster up

.PHONY: clean-cluster
clean-cluster: venv ## Remove the native cluster: processes, mounts, bridges, namespaces, rules, cgroups
	$(PY) -m sweyard_cluster down --all

.PHONY: clean
clean: ## Remove the Python environment and build outputs (downloads and programs stay cached)
	rm -rf $(VENV) build dist

.PHONY: clean-cache
clean-cache: ## Remove the cache, ~/.cache/sweyard, and the Python environment, about 20 GB; a native cluster goes first
	@if ls "$(CACHE)"/clusters/*/cluster.json >/dev/null 2>&1 && [ ! -x $(PY) ]; then \
		echo "a native cluster uses the cache: make clean-cluster first"; exit 1; fi
	@if [ -d "$(CACHE)" ] && [ -x $(PY) ]; then $(PY) -m sweyard_cluster down --all; fi
	@case "$(CURDIR)/ $(HOME)/" in "$(CACHE:%/=%)"/*|*" $(CACHE:%/=%)"/*) \
		echo "$(CACHE) holds more than the cache: remove by hand what is no longer needed"; exit 1;; esac
	@if grep -qs " $(CACHE)/" /proc/mounts; then echo "something is still mounted below $(CACHE)"; exit 1; fi
	rm -rf "$(CACHE)" $(VENV)

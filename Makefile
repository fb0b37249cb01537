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
# A PyTorch build: cpu where there is no GPU, else what the package registry has (CUDA), as for a
# cluster, whose submitting host need not have one. Another one, such as TORCH=cu128 or
# TORCH=rocm6.4, comes from PyTorch's own index.
TORCH ?= $(if $(filter-out local,$(PROFILE))$(shell command -v nvidia-smi),default,cpu)
TORCH_INDEX ?= https://download.pytorch.org/whl/$(TORCH)
TORCH_VERSION := $(shell sed -n 's/^torch==//p' requirements.lock)

BIN := $(VENV)/bin
READY := $(VENV)/.ready
# A folder in GLUE's TSV layout, in place of the study's own source.
ifneq ($(GLUE_DIR),)
SOURCE = --config "source={kind: glue, folder: '$$(realpath -e "$(GLUE_DIR)")'}"
endif
# Snakemake takes some wrong numbers without a word.
number = $(shell printf %s '$(1)' | grep -xE '[1-9][0-9]*')
$(foreach name,JOBS GPU_SLOTS,$(if $($(name)),$(if $(call number,$($(name))),,\
  $(error $(name)=$($(name)): give a whole number, 1 or more))))
# How many jobs that use a GPU run at a time: one a GPU, where nothing else is said.
GPU_SLOTS ?= $$($(BIN)/python -m acl_bert.gpus)
# The limits of this machine, cores and slots; or of a cluster, jobs in its queue. Where none is
# given, those of the profile.
ifeq ($(PROFILE),local)
CORES = $(if $(JOBS),--cores $(JOBS))
LIMITS = $(CORES) --resources gpu=$(GPU_SLOTS)
PLANNED = $(CORES) --gpus $(GPU_SLOTS)
else
LIMITS = $(if $(JOBS),--jobs $(JOBS))
PLANNED = $(LIMITS)
endif
SNAKEMAKE = $(BIN)/snakemake --profile workflow/profiles/$(PROFILE) $(LIMITS) $(SOURCE)

.PHONY: help given demo test test-cluster plan calibrate reproduce resume ui sync-tracking report progress soak bench lint schema lock clean

help: ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: CONFIG, PROFILE, GLUE_DIR, JOBS (cores; jobs queued), GPU_SLOTS, HOST, PORT, HARDWARE, KILLS; at installation PYTHON, TORCH, TORCH_INDEX"

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@# The build is asked for by name first: whoever has it at hand needs no other index.
ifeq ($(TORCH),default)
	$(BIN)/pip install --quiet "torch==$(TORCH_VERSION)"
else
	$(BIN)/pip install --quiet "torch==$(TORCH_VERSION)+$(TORCH)" 2>/dev/null || \
	  $(BIN)/pip install --quiet --extra-index-url $(TORCH_INDEX) "torch==$(TORCH_VERSION)+$(TORCH)"
endif
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY) ## the whole pipeline on generated tasks, in some minutes
	$(SNAKEMAKE) --configfile config/demo.yaml
	@$(BIN)/python -m acl_bert where --config config/demo.yaml

test: $(READY) ## the tests
	$(BIN)/python -m pytest

test-cluster: $(READY) ## what a SLURM cluster does to a study, on a pretend one: root, half an hour
	$(BIN)/python -m pytest tests/cluster -m "long or not long"

# What Snakemake answers with a traceback.
given:
	@test -f "$(CONFIG)" || { echo "CONFIG=$(CONFIG): no such file" >&2; exit 2; }
	@test -f workflow/profiles/$(PROFILE)/config.yaml || \
	  { echo "PROFILE=$(PROFILE): give one of these:" $$(ls workflow/profiles) >&2; exit 2; }

plan: given $(READY) ## what CONFIG's study would take: runs, hours, disk; on another GPU: HARDWARE=…
	@$(BIN)/python -m acl_bert plan --config "$(CONFIG)" --profile workflow/profiles/$(PROFILE) \
	  $(PLANNED) $(if $(HARDWARE),--hardware $(HARDWARE)) $(if $(GLUE_DIR),--glue-dir "$(GLUE_DIR)")

calibrate: $(READY) ## time some steps on this machine, for the plan of CONFIG's study
	$(BIN)/python -m acl_bert calibrate --config "$(CONFIG)"

reproduce: given $(READY) ## the paper; or another study: CONFIG=…, on local rows: GLUE_DIR=…
	$(SNAKEMAKE) --configfile "$(CONFIG)"
	@$(BIN)/python -m acl_bert where --config "$(CONFIG)"

ui: $(READY) ## MLflow's pages of CONFIG's study
	$(BIN)/python -m acl_bert ui --config "$(CONFIG)" --host $(HOST) --port $(PORT)

sync-tracking: $(READY) ## bring MLflow up to date with the files of CONFIG's study
	$(BIN)/python -m acl_bert sync-tracking --config "$(CONFIG)"

resume: given $(READY) ## go on after a crash: CONFIG's study is unlocked, what was cut short made again
	$(SNAKEMAKE) --configfile "$(CONFIG)" --unlock
	$(SNAKEMAKE) --configfile "$(CONFIG)" --rerun-incomplete

report: $(READY) ## tables, figures and report of what is finished of CONFIG's study
	$(BIN)/python -m acl_bert analyse --config "$(CONFIG)"

progress: $(READY) ## how far CONFIG's study is, and how long the rest will take
	@$(BIN)/python -m acl_bert progress --config "$(CONFIG)"

soak: $(READY) ## kill a small study's processes at KILLS random moments
	ACL_BERT_KILLS=$(KILLS) $(BIN)/python -m pytest -q tests/workflow/test_soak.py

bench: $(READY) ## the speed of training and of starting, as ratios
	$(BIN)/python benchmarks/bench.py

lint: $(READY) ## style, types, workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint --configfile config/paper.yaml

schema: $(READY) ## regenerate the config's JSON schema and the tables of config/README.md
	$(BIN)/python -m acl_bert schema > workflow/schemas/study.schema.json
	$(BIN)/python -m acl_bert.config.reference config/README.md

lock: ## regenerate requirements.lock from pyproject.toml
	rm -rf .lock && $(PYTHON) -m venv .lock
	.lock/bin/pip install --quiet ".[study,demo,dev]"
	.lock/bin/pip freeze --all --exclude pip --exclude acl-bert | grep -v '^nvidia-\|^triton\|^cuda-' | sed 's/^\(torch==[0-9.]*\)+.*/\1/' > requirements.lock
	rm -rf .lock

clean: ## remove the environment, not the results
	rm -rf $(VENV)

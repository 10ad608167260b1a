# `make help` lists what there is. ARGS goes to pytest or the benchmark: make test ARGS="tests/unit -k retry"

VENV   := .venv
PYTHON := $(VENV)/bin/python
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN)
ARGS   ?=

PYTEST := $(PYTHON) -m pytest --numprocesses $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test check bench requirements reference picture screenshots pin clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 22

demo: $(VENV)/.installed ## queue tasks in a throwaway project and show what acode does with them
	$(PYTHON) tools/demo.py

test: $(VENV)/.installed $(VENV)/.components ## run the tests
	$(PYTEST) $(ARGS)

check: $(VENV)/.installed $(VENV)/.components ## format, lint, strict types, then the tests
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m ruff check
	$(PYTHON) -m mypy
	$(PYTEST) $(ARGS)

bench: $(VENV)/.installed-bench ## measure acode side by side with its peers
	$(PYTHON) -m bench $(ARGS)

requirements: $(VENV)/.installed $(VENV)/.components ## run the tests and list the requirements that they prove
	$(PYTEST) --requirements $(ARGS)

reference: $(VENV)/.installed ## write docs/reference/cli.md anew from the parser
	$(PYTHON) tools/reference.py

picture: $(VENV)/.installed ## draw the README's picture from real output
	$(PYTHON) tools/picture.py

screenshots: $(VENV)/.installed ## let the tests that take the README's pictures write them to docs/images
	$(PYTHON) -m pytest tests/web/test_pictures.py --pictures docs/images

pin: ## write constraints.txt anew with the newest versions
	sh tools/pin.sh

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.installed: pyproject.toml constraints.txt tools/setup.sh
	sh tools/setup.sh $(VENV) test,check,postgres,web,tui
	@touch $@

$(VENV)/.components: $(VENV)/.installed tools/components.sh
	sh tools/components.sh
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	sh tools/setup.sh $(VENV) test,check,bench,postgres,web,tui
	@touch $@

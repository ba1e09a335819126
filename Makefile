# Two commands: `make demo` shows everything at work, `make test` checks it in about 10 minutes on two cores.
PYTHON ?= python3
VENV ?= .venv
DEMO ?= demo
# Each worker needs up to 3 GB of memory.
WORKERS ?= 2
BIN = $(VENV)/bin

.PHONY: demo stores test test-all test-fast test-parts wheel site tutorials test-model-and-data test-training \
	test-tasks test-exports-and-formats test-rest test-site lint clean

# TEXT=path/to/files trains on your own text (a file or a folder of .txt and .md) instead of docstrings.
demo: $(VENV)/.installed
	$(BIN)/python -m examples.demo --output=$(DEMO) $(if $(TEXT),--text="$(TEXT)") $(if $(BACKEND),--backend=$(BACKEND))

# In parts, each in new processes, because TensorFlow never frees the memory of what a process has traced.
# Files in the order of tests/conftest.py: xdist's own begins those of few tests, among them the longest, last.
PYTEST = $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder \
	--durations=25 $(SELECT)
DATA = tests/data_prep
MODEL = tests/conformance $(addprefix tests/albert_tf/,kernels model optimizers)
TRAINING = $(addprefix tests/albert_tf/,training pretraining)
TASKS = $(addprefix tests/albert_tf/,tasks finetuning)
FORMATS = $(addprefix tests/albert_tf/,checkpoints conversion)
REST = tests $(addprefix --ignore=,$(DATA) $(MODEL) $(TRAINING) $(TASKS) $(FORMATS) tests/export)

# All tests but those of several seconds or more, of which it has the few that follow users through everything.
test: SELECT = -m "not very_slow or journey" --hypothesis-profile=quick
test: lint test-parts

# What `make test` leaves out, and more examples of every property: about 45 minutes on two cores. Many of these
# tests wait for a process or a server, so a third worker gains a tenth.
test-all: SELECT = -m "very_slow and not journey or hypothesis"
test-all: WORKERS = 3
test-all: lint stores test-parts

test-parts: test-model-and-data test-training test-tasks test-exports-and-formats test-rest

# Servers of object stores, and experiment trackers.
stores: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[stores,mlflow,wandb]'

# All tests that take less than a second: three minutes on two cores.
test-fast: SELECT = -m "not slow and not very_slow"
test-fast: $(VENV)/.installed-dev
	$(PYTEST)

test-model-and-data: $(VENV)/.installed-dev
	$(PYTEST) $(MODEL) $(DATA)

test-training: $(VENV)/.installed-dev
	$(PYTEST) $(TRAINING)

test-tasks: $(VENV)/.installed-dev
	$(PYTEST) $(TASKS)

test-exports-and-formats: $(VENV)/.installed-dev
	$(PYTEST) tests/export $(FORMATS)

test-rest: $(VENV)/.installed-dev
	$(PYTEST) $(REST)

# dist/albert_tf-VERSION-py3-none-any.whl
wheel:
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir=dist .

# build/site/index.html. Its search needs a server: python3 -m http.server --directory=build/site
site: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# Runs docs/tutorials/*.py and replaces the notebooks beside them, one after the other, in about 15 minutes.
# TUTORIALS="classifier search" runs these; the one on pretraining needs TEXTS=path/to/folder of .txt files.
tutorials: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,onnx,docs]'
	$(BIN)/python docs/run_tutorials.py $(TUTORIALS) $(if $(TEXTS),--texts="$(TEXTS)")

# The site's pages in headless Chromium, which must be installed.
test-site: site $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	$(BIN)/python -m pytest -rs tests/test_site.py

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.installed: pyproject.toml requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(DEMO) build dist

# Two commands: `make demo` shows everything at work, `make test` checks it.
PYTHON ?= python3
VENV ?= .venv
DEMO ?= demo
BIN = $(VENV)/bin

.PHONY: demo test lint clean

# TEXT=path/to/files trains on your own text (a file or a folder of .txt and .md) instead of docstrings.
demo: $(VENV)/.installed
	$(BIN)/python -m examples.demo --output=$(DEMO) $(if $(TEXT),--text="$(TEXT)")

test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.installed: pyproject.toml requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(DEMO)

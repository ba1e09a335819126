"""The paper's tables and figures as experiments that run: `python -m experiments`."""

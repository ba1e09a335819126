"""The paper's tables and figures as experiments that run: `albert lab`."""

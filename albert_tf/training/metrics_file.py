"""metrics.jsonl, read; without TensorFlow, so that drawing curves starts at once."""

import json
from pathlib import Path

METRICS_FILE = "metrics.jsonl"


def read_metrics(run: Path) -> list[dict]:
    """All complete lines of a run's metrics.jsonl; a line cut short by a kill is left out."""
    path = Path(run) / METRICS_FILE
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]  # what follows the last newline is empty or cut short

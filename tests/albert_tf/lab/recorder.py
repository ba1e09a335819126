"""A laboratory whose programs are recorded in place of being run."""

import json
from pathlib import Path

from albert_tf.checkpoints.run_files import RESULTS_FILE
from albert_tf.lab.laboratory import Laboratory
from albert_tf.lab.scales import TINY
from albert_tf.lab.settings import LabSettings
from albert_tf.lab.subprocesses import ProgramRunner
from data_prep.files import write_json


class Recorder(ProgramRunner):
    """Keeps the settings of each command and the arguments of each module.

    Attributes:
      settings: command -> its last settings.
      requests: module -> its last request, read from JSON.
    """

    def __init__(self):
        super().__init__()
        self.settings, self.requests = {}, {}

    def albert(self, command, settings):
        self.settings[command] = settings
        if command == "finetune":
            Path(settings.output_dir).mkdir(parents=True)
            write_json(Path(settings.output_dir) / RESULTS_FILE, {"dev": {"accuracy": {"median": 0.5}}})

    def module(self, module, *words):
        request = self.requests[module] = json.loads(words[0])
        values = {"accuracy": 0.75, "chance": 0.5}
        write_json(request["output"], dict.fromkeys(request["examples"], values))


def recorded_laboratory(folder: Path, **flags) -> Laboratory:
    """A laboratory in FOLDER/lab on the .txt files in FOLDER, of which it has written three."""
    for number in range(3):
        (folder / f"{number}.txt").write_text("One sentence. Another one.\n")
    settings = LabSettings(str(folder / "lab"), f"{folder}/*.txt", **flags).resolved(TINY)
    return Laboratory(settings, TINY, Recorder())

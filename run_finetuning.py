#!/usr/bin/env python
"""Fine-tunes a pretrained ALBERT; the same program as `albert finetune`.

`python run_finetuning.py --help` lists the flags.
"""

import sys

from albert_cli.entry import main

if __name__ == "__main__":
    sys.exit(main(["finetune", *sys.argv[1:]]))

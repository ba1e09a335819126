#!/usr/bin/env python
"""Pretrains an ALBERT; the same program as `albert pretrain`.

`python run_pretraining.py --help` lists the flags.
"""

import sys

from albert_cli.entry import main

if __name__ == "__main__":
    sys.exit(main(["pretrain", *sys.argv[1:]]))

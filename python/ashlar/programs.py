# SPDX-License-Identifier: Apache-2.0
"""The programs of the package, as commands: each becomes the program."""

import os
import sys

from ashlar import Error, _tool


def _become(name):
    try:
        os.execv(_tool(name), [name, *sys.argv[1:]])
    except (Error, OSError) as error:
        sys.exit(f"error: {error}")


def ashlarc():
    _become("ashlarc")


def ashlar_ckpt():
    _become("ashlar-ckpt")


def ashlar_data():
    _become("ashlar-data")


def ashlar_sim():
    _become("ashlar-sim")


def ashlar_zoo():
    _become("ashlar-zoo")

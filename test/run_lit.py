#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs lit and counts its files as every test program counts its cases: run_lit.py LIT FOLDER [OPTION...]"""

import json
import os
import subprocess
import sys
import tempfile

PASSED = {"PASS", "XFAIL", "FLAKYPASS"}
SKIPPED = {"UNSUPPORTED", "SKIPPED", "EXCLUDED"}


def main():
    lit, folder, options = sys.argv[1], sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as scratch:
        results = os.path.join(scratch, "lit.json")
        status = subprocess.run([lit, "-sv", "--output", results, folder, *options], check=False).returncode
        with open(results, encoding="utf-8") as file:
            codes = [test["code"] for test in json.load(file)["tests"]]
    passed = sum(code in PASSED for code in codes)
    skipped = sum(code in SKIPPED for code in codes)
    print(f"cases: {passed} passed, {len(codes) - passed - skipped} failed, {skipped} skipped")
    sys.exit(status)


main()

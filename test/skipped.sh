#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Stands for a test that could not be built here, so that every machine counts the same tests: skipped.sh REASON CASES
echo "skipped: $1"
echo "cases: 0 passed, 0 failed, $2 skipped"
exit 77

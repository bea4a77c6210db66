# SPDX-License-Identifier: Apache-2.0
#
# A checkpoint resumes in every other job that trains the same model with the same optimizer, however each of the two splits the model or the
# step, and whether or not they follow a schedule or draw numbers. A choice of pairs that has every way on both sides; all of them, which takes
# most of an hour: python3 test/e2e/resume_pairs.py TOOLS EMULATOR --all.

. "$(dirname "$0")/common.sh"

emulator=${ASHLAR_EMULATOR_FOLDER:-$tools/../emulator}
python3 "$(dirname "$0")/resume_pairs.py" "$tools" "$emulator"

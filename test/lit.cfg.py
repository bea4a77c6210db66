# SPDX-License-Identifier: Apache-2.0
#
# The .mlir tests of dialects and passes, and the .test files of the programs: RUN lines with our tools and FileCheck.

import fcntl
import itertools
import os

import lit.formats
from lit.llvm import llvm_config


def free_folder(parent):
    """Returns a folder for the outputs of this run: the first of parent/0, parent/1, ... that no other run has locked."""
    for number in itertools.count():
        folder = os.path.join(parent, str(number))
        os.makedirs(folder, exist_ok=True)
        lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder  # the lock ends with the process
        except BlockingIOError:
            os.close(lock)


config.name = "ashlar"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = free_folder(os.path.join(config.ashlar_test_dir, "lit"))

llvm_config.add_tool_substitutions(
    ["ashlar-data", "ashlar-fuzz", "ashlar-opt", "ashlar-sim", "ashlar-zoo", "ashlarc", "not", "split-file"], [config.ashlar_tools_dir, config.llvm_tools_dir])
config.substitutions.append(
    ("FileCheck", os.path.join(config.llvm_tools_dir, "FileCheck") + " -enable-var-scope -dump-input-filter=error"))
config.substitutions.append(("%jobs", os.path.join(config.test_source_root, "..", "docs", "jobs")))
# Selects a fault in the joint build of tools/mutate.sh.
if "ASHLAR_MUTANT" in os.environ:
    config.environment["ASHLAR_MUTANT"] = os.environ["ASHLAR_MUTANT"]
# The toolkit was there when Ashlar was configured; a GPU need not be.
if config.ashlar_cuda:
    config.available_features.add("cuda")

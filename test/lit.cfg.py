# SPDX-License-Identifier: Apache-2.0
#
# The .mlir tests: RUN lines with ashlar-opt and FileCheck.

import os

import lit.formats
from lit.llvm import llvm_config

config.name = "ashlar"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.ashlar_test_dir

llvm_config.add_tool_substitutions(
    ["ashlar-opt", "not", "split-file"], [config.ashlar_tools_dir, config.llvm_tools_dir])
config.substitutions.append(
    ("FileCheck", os.path.join(config.llvm_tools_dir, "FileCheck") + " -enable-var-scope -dump-input-filter=error"))

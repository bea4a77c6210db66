# SPDX-License-Identifier: Apache-2.0
#
# The .mlir tests of dialects and passes, and the .test files of the programs: RUN lines with our tools and FileCheck.

import os

import lit.formats
from lit.llvm import llvm_config

config.name = "ashlar"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.ashlar_test_dir

llvm_config.add_tool_substitutions(
    ["ashlar-fuzz", "ashlar-opt", "ashlar-zoo", "ashlarc", "not", "split-file"], [config.ashlar_tools_dir, config.llvm_tools_dir])
config.substitutions.append(
    ("FileCheck", os.path.join(config.llvm_tools_dir, "FileCheck") + " -enable-var-scope -dump-input-filter=error"))
config.substitutions.append(("%jobs", os.path.join(config.test_source_root, "..", "docs", "jobs")))
# The toolkit was there when Ashlar was configured; a GPU need not be.
if config.ashlar_cuda:
    config.available_features.add("cuda")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses decisions by the name of a program: programs have roles (dialects/nn/programs.h), and a parameter may have any name. programs.py ROOT"""

import os
import re
import sys

ROOMS = ("compiler", "dialects", "passes", "runtime", "tools")
# The usual names of programs, and how names of chunks, rounds and joined runs go on.
NAMES = "init|forward|larger_forward|prepare|train_step|backward|weights|update|eval_step"
LITERAL = rf'"@?(?:{NAMES})[_+]?"'
PROGRAM = r"(?:\bprogram|\bfunction|Program|Function|\bfunc)\w*(?:\(\))?(?:\.|->)"
REFUSED = (
    (re.compile(rf"[=!]=\s*{LITERAL}|{LITERAL}\s*[=!]="), "a comparison with the name of a program"),
    (re.compile(rf"(?:starts_with|ends_with|consume_front|contains|strcmp|equals|lookup|lookupSymbol(?:<[^>]*>)?)\([^;()]*{LITERAL}"), "a look-up by the name of a program"),
    (re.compile(rf"{PROGRAM}(?:getSymName|getName|name)(?:\(\))?(?:\.(?:starts_with|ends_with|contains|split|consume_front)\(|\s*[=!]=\s*\"|\.find\(['\"])"), "a decision by the name of a program"),
    (re.compile(rf"strcmp\([^;]*\bprogram\w*(?:\.|->)(?:source\.)?name"), "a comparison of the name of a program"),
    (re.compile(r"getProgram\(\)(?:\.getValue\(\))?(?:\s*[=!]=|\.(?:starts_with|ends_with|contains|split)\()"), "a decision by the program that a run names"),
)
# FILE: why it may.
ALLOWED = {
    "compiler/frontend/ops/recurrent/recurrent_layer.cpp": "the direction of a recurrent layer of ONNX",
    "compiler/target/cuda/ptx.cpp": "functions of NVIDIA's library",
}


def plain(text):
    """Returns a source without comments."""
    return re.sub(r"//[^\n]*", "", text)


def faults(text):
    """Yields the number of each line of a source that decides by the name of a program, and the rule that it breaks."""
    for number, line in enumerate(plain(text).split("\n"), 1):
        for pattern, what in REFUSED:
            if pattern.search(line):
                yield number, what
                break


def check_itself():
    refused = ['if (function.getSymName() == "train_step") {', 'module.lookupSymbol<func::FuncOp>("init")', 'program.getName().starts_with("update")',
               'return program.getSymName().contains(\'+\');', "std::strcmp(program.source.name, other) == 0", 'if (run.getProgram() == name) {']
    taken = ['line("forward", text);', "nn::hasRole(function, nn::ProgramRole::Init)", 'case StepPhase::Weights: return "weights";',
             "module.lookupSymbol<func::FuncOp>(run.getProgram())", "// function.getSymName() == \"init\""]
    wrong = [line for line in refused if not list(faults(line))] + [line for line in taken if list(faults(line))]
    if wrong:
        sys.exit("programs.py itself is wrong about: " + "; ".join(wrong))


def main(root):
    check_itself()
    found = []
    for room in ROOMS:
        for folder, _, files in os.walk(os.path.join(root, room)):
            for file in sorted(files):
                path = os.path.relpath(os.path.join(folder, file), root)
                if not file.endswith((".cpp", ".h", ".cu", ".inc")) or path in ALLOWED:
                    continue
                with open(os.path.join(root, path), encoding="utf-8") as source:
                    found += [f"{path}:{number}: {what}; ask for its role (dialects/nn/programs.h, ashlar_rt_program_id)" for number, what in faults(source.read())]
    if found:
        sys.exit("\n".join(found))


main(sys.argv[1])

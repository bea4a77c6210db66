# SPDX-License-Identifier: Apache-2.0
"""Names each function of the compiler that goes along operands or users and calls itself, directly or through others of its file: a chain of ops may be
longer than the stack is deep (docs/howto/add_pass.md). Calls are found by name. recursion.py ROOT"""

import os
import re
import sys

ROOMS = ("compiler", "dialects", "passes")
WALKS = re.compile(r"getOperands\(|getOperand\(|getOpOperands\(|getDefiningOp|getUsers\(|getUses\(|getInput\(|getInputs\(|getLhs\(|\.operands\b|forEachOperand")
# What has a bound: FILE: FUNCTION, with the reason.
BOUNDED = {
    ("passes/layout/redistribute/delay_reductions.cpp", "findTerms"): "kMaxDepth",
    ("passes/layout/redistribute/local_program.cpp", "addRun"): "each broadcast adds dims, of which a tensor has few",
    ("passes/lower/fusion/fuse.cpp", "collectInputs"): "kMaxViewCode",
    ("passes/lower/fusion/fuse.cpp", "import"): "kMaxViewCode",
    ("passes/lower/fusion/fuse.cpp", "importOperands"): "kMaxViewCode",
    ("passes/lower/fusion/split_reductions.cpp", "import"): "kMaxKernelCode",
    ("passes/lower/kernels/scalar_emitter.cpp", "emit"): "kMaxViewCode: element-wise ops are walked by a list",
    ("passes/lower/kernels/scalar_emitter.cpp", "compute"): "kMaxViewCode: element-wise ops are walked by a list",
    ("passes/lower/kernels/scalar_emitter.cpp", "note"): "as compute",
    ("passes/partition/exchange_windows.cpp", "emitRun"): "each broadcast adds dims, of which a tensor has few",
    ("dialects/nn/repeat/repeats.cpp", "markDependents"): "one level for each repeat around an op",
    ("passes/train/mixed_precision.cpp", "convertNarrow"): "one level for each repeat around an op",
    ("passes/train/mixed_precision.cpp", "narrow"): "one level for each repeat around an op",
    ("passes/train/mixed_precision.cpp", "narrowOutside"): "one level for each repeat around an op",
    ("passes/train/mixed_precision.cpp", "visit"): "one level for each repeat around an op",
    ("passes/train/mixed_precision.cpp", "visitRepeat"): "one level for each repeat around an op",
    ("passes/train/autodiff.cpp", "checkGradient"): "one level for each repeat around an op",
    ("passes/train/autodiff.cpp", "checkBody"): "as checkGradient",
    ("compiler/reference/interpreter.cpp", "execute"): "one level for each op with a body around an op",
    ("compiler/reference/interpreter.cpp", "executeRepeat"): "as execute",
    ("compiler/reference/interpreter.cpp", "runBlock"): "as execute",
    ("compiler/frontend/folding/known_node.cpp", "compute"): "ops in program order: only constants outside of the block are met later",
    ("compiler/frontend/folding/known_node.cpp", "tensorOf"): "ops in program order: only constants outside of the block are met later",
}
KEYWORDS = {"if", "for", "while", "switch", "return", "catch", "sizeof", "assert", "decltype", "static_assert", "alignof"}


def plain(text):
    """Returns a source without comments and the content of literals."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r'"(\\.|[^"\\\n])*"', '""', text)


def closing(text, at, pair):
    """Returns the place of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return len(text)


def functions(text):
    """Yields the name, the parameters and the body of each function and each lambda with a name."""
    for found in re.finditer(r"(?<![\w.>])([A-Za-z_][\w:]*)\s*\(", text):
        end = closing(text, found.end() - 1, "()")
        body = re.match(r"\s*(const|noexcept|override|final|->\s*[\w:<>,\s*&]+|\s)*\{", text[end + 1:end + 200])
        if body and found.group(1).split("::")[-1] not in KEYWORDS:
            begin = end + body.end()
            yield found.group(1).split("::")[-1], text[found.end():end], text[begin:closing(text, begin, "{}")]
    for found in re.finditer(r"(\w+)\s*=\s*\[[^\]]*\]\s*\(([^{};]*?)\)[^;{]*\{", text):
        yield found.group(1), found.group(2), text[found.end():closing(text, found.end() - 1, "{}")]


def arity(text):
    """Returns how many arguments or parameters a list has."""
    depth = commas = 0
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        commas += c == "," and depth == 0
    return commas + 1 if text.strip() else 0


def calls(body, names):
    """Returns the functions of `names`, with their counts of arguments, that a body calls without an object."""
    found = set()
    for call in re.finditer(r"(?<![\w.:>])(?:this->)?([A-Za-z_]\w*)\s*\(", body):
        if call.group(1) in names:
            found.add((call.group(1), arity(body[call.end():closing(body, call.end() - 1, "()")])))
    return found


def check(root, path):
    """Returns the names of the functions of a file that may call themselves and walk operands."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        found = list(functions(plain(file.read())))
    names = {name for name, _, _ in found}
    graph, walks = {}, set()
    for name, parameters, body in found:
        key = (name, arity(parameters))
        graph.setdefault(key, set()).update(calls(body, names))
        if WALKS.search(body):
            walks.add(key)
    bad = []
    for start in graph:
        seen, pending = set(), [start]
        while pending:
            for key in graph.get(pending.pop(), ()):
                if key not in seen:
                    seen.add(key)
                    pending.append(key)
        if start in seen and (start in walks or any(key in walks and start in graph.get(key, ()) for key in seen)):
            bad.append(start[0])
    return [name for name in sorted(set(bad)) if (path, name) not in BOUNDED]


def main(root):
    found = []
    for room in ROOMS:
        for folder, _, files in os.walk(os.path.join(root, room)):
            for name in sorted(files):
                if name.endswith((".cpp", ".h")):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    found += [f"{path}: {function} goes along operands and calls itself; use a list (dialects/support/operands_first.h)"
                              for function in check(root, path)]
    for line in found:
        print(line, file=sys.stderr)
    print(f"{len(found)} functions go along operands by calls of themselves")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

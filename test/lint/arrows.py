#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which room includes which, over the #include lines of the tree.

    arrows.py ROOT
"""

import pathlib
import re
import sys

# Room -> rooms it may include, itself and rooms around it aside. A room is the longest prefix of a path in this table.
ARROWS = {
    "compiler/command": ["compiler/file", "compiler/job", "compiler/report", "compiler/strategy", "compiler/target", "dialects"],
    "compiler/cost": ["compiler/job", "passes/analysis", "dialects"],
    "compiler/driver": ["compiler", "passes", "dialects", "runtime/abi"],
    "compiler/file": ["runtime/abi"],
    "compiler/frontend": ["compiler/frontend/importer", "compiler/frontend/annotations", "compiler/frontend/folding", "compiler/frontend/weights", "compiler/file", "compiler/job", "compiler/reference", "dialects"],
    "compiler/frontend/annotations": ["compiler/file", "compiler/job", "dialects"],
    "compiler/frontend/folding": ["compiler/frontend/ops/index", "compiler/reference", "dialects"],
    "compiler/frontend/importer": ["compiler/frontend/annotations", "compiler/frontend/folding", "compiler/frontend/weights", "dialects"],
    "compiler/frontend/inspection": ["compiler/file", "compiler/job", "dialects"],
    "compiler/frontend/ops": ["compiler/frontend/ops/recurrent", "dialects"],
    "compiler/frontend/ops/index": ["dialects"],
    "compiler/frontend/ops/recurrent": ["dialects"],
    "compiler/frontend/ops/windows": ["dialects"],
    "compiler/frontend/weights": ["compiler/file", "compiler/job", "dialects"],
    "compiler/job": ["compiler/file", "dialects/support"],
    "compiler/pipelines": ["compiler/cost", "compiler/frontend", "compiler/job", "compiler/strategy", "passes", "dialects"],
    "compiler/planning": ["compiler/command", "compiler/cost", "compiler/frontend", "compiler/job", "compiler/pipelines", "compiler/report", "compiler/strategy", "compiler/file", "passes", "dialects", "runtime/abi", "runtime/timeline"],
    "compiler/plugin": ["compiler/frontend", "compiler/pipelines", "dialects"],
    "compiler/reference": ["dialects"],
    "compiler/report": ["compiler/report/page", "compiler/job", "passes", "dialects", "runtime/timeline"],
    "compiler/report/page": ["dialects"],
    "compiler/strategy": ["compiler/job", "passes", "dialects"],
    "compiler/target": ["compiler/file", "compiler/report", "passes/lower/calls", "dialects", "runtime/abi"],
    "dialects/dist": ["dialects/support"],
    "dialects/exec": ["dialects/support"],
    "dialects/nn": ["dialects/nn/windows", "dialects/support"],
    "dialects/nn/repeat": ["dialects/nn/ops", "dialects/support"],
    "dialects/nn/windows": ["dialects/support"],
    "dialects/support": [],
    "passes/analysis": ["dialects", "runtime/abi"],
    "passes/decode": ["dialects"],
    "passes/format": ["dialects"],
    "passes/layout": ["passes/analysis", "dialects"],
    "passes/layout/hybrid": ["passes/layout/inference", "dialects"],
    "passes/layout/inference": ["passes/analysis", "dialects"],
    "passes/layout/optimizer": ["passes/layout/inference", "passes/layout/rules", "dialects"],
    "passes/layout/redistribute": ["passes/layout/inference", "passes/layout/optimizer", "passes/layout/rules", "passes/analysis", "dialects"],
    "passes/layout/rules": ["passes/layout/inference", "passes/analysis", "dialects"],
    "passes/lower": ["dialects"],
    "passes/lower/calls": ["dialects", "runtime/abi"],
    "passes/lower/fusion": ["passes/lower/calls", "passes/lower/kernels", "passes/analysis", "dialects"],
    "passes/lower/kernels": ["dialects"],
    "passes/lower/memory": ["passes/analysis", "passes/lower/calls", "passes/lower/kernels", "dialects", "runtime/abi"],
    "passes/lower/overlap": ["passes/analysis", "passes/lower/memory", "dialects"],
    "passes/partition": ["passes/analysis", "dialects"],
    "passes/search": ["passes/search/solver", "passes/analysis", "passes/layout", "dialects"],
    "passes/search/solver": [],
    "passes/stage": ["compiler/file", "passes/analysis", "dialects"],
    "passes/train": ["dialects"],
    "passes/train/loss": ["dialects"],
    "passes/train/update": ["dialects"],
    "runtime/abi": [],
    "runtime/base": ["runtime/abi"],
    "runtime/checkpoint": ["runtime/base", "runtime/abi"],
    "runtime/comm": ["runtime/device", "runtime/base", "runtime/abi"],
    "runtime/comm/launch": ["runtime/comm/tcp", "runtime/base", "runtime/abi"],
    "runtime/comm/tcp": ["runtime/base", "runtime/abi"],
    "runtime/data": ["runtime/base", "runtime/abi"],
    "runtime/device": ["runtime/base", "runtime/abi"],
    "runtime/execute": ["runtime/comm", "runtime/data", "runtime/device", "runtime/kernels", "runtime/base", "runtime/abi"],
    "runtime/execute/cpu": ["runtime/comm", "runtime/data", "runtime/device", "runtime/kernels", "runtime/base", "runtime/abi"],
    "runtime/execute/cuda": ["runtime/comm", "runtime/data", "runtime/device", "runtime/kernels", "runtime/base", "runtime/abi"],
    "runtime/kernels": ["runtime/device", "runtime/base", "runtime/abi"],
    "runtime/run": ["runtime"],
    "runtime/run/generate": ["runtime/run/checkpoint", "runtime/data", "runtime/execute", "runtime/base", "runtime/abi"],
    "runtime/run/checkpoint": ["runtime/checkpoint", "runtime/comm", "runtime/data", "runtime/execute", "runtime/base", "runtime/abi"],
    "runtime/simulate": ["runtime/comm", "runtime/execute", "runtime/timeline", "runtime/base", "runtime/abi"],
    "runtime/timeline": ["runtime/base", "runtime/abi"],
    "runtime/trace": ["runtime/comm", "runtime/simulate", "runtime/base", "runtime/abi"],
    "tools": ["compiler", "passes", "dialects", "runtime/abi"],
    "tools/ashlar_calibrate": ["runtime"],
    "tools/ashlar_data": ["compiler/driver", "compiler/job", "compiler/target", "dialects", "runtime/data", "runtime/base", "runtime/abi"],
    "tools/ashlar_ckpt": ["runtime/checkpoint", "runtime/base", "runtime/abi"],
    "tools/ashlar_sim": ["compiler/cost", "compiler/job", "compiler/target", "passes/analysis", "dialects", "runtime"],
}
NO_MLIR = ["runtime"]


def room_of(path):
    matches = [room for room in ARROWS if path.startswith(room + "/")]
    return max(matches, key=len) if matches else None


def main():
    root = pathlib.Path(sys.argv[1])
    faults = []
    for top in ("compiler", "dialects", "passes", "runtime", "tools"):
        for source in sorted((root / top).rglob("*")):
            if source.suffix not in (".cpp", ".h", ".td", ".inc"):
                continue
            path = source.relative_to(root).as_posix()
            room = room_of(path)
            if room is None:
                faults.append(f"{path}: its folder is not in the table of arrows.py")
                continue
            for number, line in enumerate(source.read_text().splitlines(), 1):
                found = re.match(r'\s*#?include\s+["<]([^">]+)[">]', line)
                if not found:
                    continue
                target = found.group(1)
                if any(path.startswith(prefix + "/") for prefix in NO_MLIR) and re.match(r"(mlir|llvm)/", target):
                    faults.append(f"{path}:{number}: includes {target}, but {room} knows nothing of MLIR")
                other = room_of(target)
                if other and not f"{room}/".startswith(f"{other}/") and not any(target.startswith(allowed + "/") for allowed in ARROWS[room]):
                    faults.append(f"{path}:{number}: {room} includes {target}; it may include {', '.join(ARROWS[room]) or 'no other room'}")
    print("\n".join(faults) if faults else "all arrows point down")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

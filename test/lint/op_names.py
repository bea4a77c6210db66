#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which passes know single nn ops: what a pass needs to know of an op, the op says itself (dialects/support/op_interfaces.td).

    op_names.py ROOT

A pass may build any op (nn::AddOp::create), and ask for those that make up a program (STRUCTURE). Any other name needs a row of ALLOWED.
"""

import pathlib
import re
import sys

STRUCTURE = {"Constant", "Gradient", "Read", "Repeat", "Variable", "Write", "Yield"}

# File or folder -> the ops that it may name, or "all", and why.
ALLOWED = {
    "passes/decode/position_places.cpp": ("Attention AttentionLogSum Index Reshape", "the ops that hide later positions, and dims that move"),
    "passes/decode/position_program.cpp": ("Slice", "counts elements in its attributes"),
    "passes/format/assign_formats.cpp": ("Transpose", "is what the pass saves"),
    "passes/layout/redistribute/delay_reductions.cpp": ("Add", "regroups the terms of a sum"),
    "passes/layout/hybrid/lift_hybrid.cpp": ("Index Random Slice", "makes what counts elements of a piece count those of the whole"),
    "passes/layout/redistribute/interleave_parts.cpp": ("Concat Pad Slice", "count elements in their attributes"),
    "passes/layout/redistribute/interleaved_dims.cpp": ("Concat Pad Slice", "the same"),
    "passes/layout/redistribute/local_program.cpp": ("Broadcast Cast Index Pad Reshape Slice", "foresees what partitioning and folding make of them"),
    "passes/layout/redistribute/move_reshaped_rows.cpp": ("Reshape", "has dims of several factors, and the attribute that the pass sets"),
    "passes/search/op_choices.cpp": ("Reduce", "the sums of an expansion"),
    "passes/lower/calls": ("Add Broadcast Mul", "the grammar of a library call"),
    "passes/lower/calls/epilogue.cpp": ("Gelu Relu Sigmoid Tanh", "the activations of a library call"),
    "passes/lower/calls/join_attention.cpp": ("Attention AttentionGradient AttentionLogSum Index Transpose", "the ops of one fusion, and the layouts of its operands"),
    "passes/lower/calls/join_attention.h": ("Attention AttentionGradient", "the same"),
    "passes/lower/calls/library_attention.cpp": ("Attention AttentionGradient", "the ops of one library call"),
    "passes/lower/calls/library_insert.cpp": ("Insert", "the op of one call"),
    "passes/lower/calls/library_product.cpp": ("Cast MatMul Reduce", "the grammar of a library call, and what reads its results"),
    "passes/lower/calls/library_product.h": ("MatMul", "the same"),
    "passes/lower/fusion": ("Add Broadcast Cast MatMul Reduce Reshape ScatterAdd Transpose", "what begins a kernel or a call, and its forms"),
    "passes/lower/fusion/convolution_forms.cpp": ("Normalize", "joins the convolution before it"),
    "passes/lower/fusion/fuse.cpp": ("Random", "keeps the key of random numbers apart from data"),
    "passes/lower/fusion/split_reductions.cpp": ("Index", "a view without an operand"),
    "passes/lower/fusion/view_table.cpp": ("Index Mul Sub", "arithmetic on places"),
    "passes/lower/kernels": ("Broadcast Index Reduce Reshape ScatterAdd", "the loop nests"),
    "passes/lower/kernels/gpu/attention_kernel.cpp": ("Add Attention AttentionGradient AttentionLogSum Sub", "the ops of one kernel"),
    "passes/lower/kernels/gpu/attention_nest.cpp": ("Transpose", "the layouts of operands and results"),
    "passes/lower/kernels/row_passes.cpp": ("Compare Select", "a sum of one element of each row"),
    "passes/lower/kernels/views.cpp": ("all", "the code of every view"),
    "passes/partition/compute_in_blocks.cpp": ("Slice", "counts elements in its attributes"),
    "passes/partition/exchange_windows.cpp": ("Broadcast", "what is repeated is sent once"),
    "passes/partition/partition.cpp": ("Index Slice", "count elements in their attributes"),
    "passes/train/attention_mask.cpp": ("Broadcast Cast Reshape", "the views of a mask"),
    "passes/train/attention_matcher.cpp": ("Add Broadcast Cast Compare Div Index MatMul Mul Random Reshape Select Softmax Tanh Transpose", "the forms of an attention"),
    "passes/train/attention_matcher.h": ("Broadcast MatMul Random Transpose", "the same"),
    "passes/train/recognize_attention.cpp": ("Broadcast Index MatMul Random Reshape Transpose", "the same"),
    "passes/train/batch_norm.cpp": ("Normalize", "what a batch normalization is of, in training"),
    "passes/train/mixed_precision.cpp": ("Cast", "the conversions of the pass itself"),
    "passes/train/loss/repeat_dependence.cpp": ("Broadcast Index", "which tensors have the same numbers along a dim"),
    "passes/train/loss/sample_dependence.cpp": ("Add Broadcast Cast Div Index Max Reshape Select Sub", "how losses are put together"),
    "passes/train/sum_behind_repeats.cpp": ("Add Cast MatMul Reduce ScatterAdd", "what the gradients of captured values are sums of"),
    "passes/train/unroll_repeats.cpp": ("Concat Reshape", "how the pass itself joins rows"),
    "passes/train/widen_gradients.cpp": ("Add Cast Pad Reduce Reshape ScatterAdd Transpose", "which gradients of parameters come in f32"),
}


def main():
    root = pathlib.Path(sys.argv[1])
    faults, used = [], set()
    for source in sorted((root / "passes").rglob("*")):
        if source.suffix not in (".cpp", ".h"):
            continue
        path = source.relative_to(root).as_posix()
        rows = [row for row in ALLOWED if path == row or path.startswith(row + "/")]
        for number, line in enumerate(source.read_text().splitlines(), 1):
            for name in re.findall(r"\bnn::([A-Z]\w*)Op\b(?!::create)", line.split("//")[0]):
                owners = [row for row in rows if ALLOWED[row][0] == "all" or name in ALLOWED[row][0].split()]
                used.update((row, name) for row in owners)
                if name not in STRUCTURE and not owners:
                    faults.append(f"{path}:{number}: names nn::{name}Op; let the op say what the pass needs to know (op_interfaces.td)")
    for row, (names, _) in ALLOWED.items():
        for name in names.split():
            if not any(owner == row and name in (other, "all") for owner, other in used):
                faults.append(f"op_names.py: {row} no longer names nn::{name}Op; drop it from ALLOWED")
    print("\n".join(faults) if faults else "no pass knows an op that it should ask")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

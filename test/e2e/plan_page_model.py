# SPDX-License-Identifier: Apache-2.0
"""Writes a model whose name, node and parameter would be markup if a page took them for it.
plan_page_model.py FILE.onnx"""

import sys

from onnx_writer import graph_input, graph_output, node, parameter, write_model

MARKUP = "</script><img src=x onerror=\"window.taken = 1\">"

if __name__ == "__main__":
    write_model(sys.argv[1], f"odd{MARKUP}<!--", [
        node("MatMul", ["x", MARKUP], ["y"], name=f"a{MARKUP}b"),
        parameter(MARKUP, [8, 8], [0.5] * 64),
        graph_input("x", [4, 8]), graph_output("y", [4, 8])])

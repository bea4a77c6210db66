#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Packs what checks and measures the cuda target into one archive, for a machine with a GPU but without MLIR (docs/gpu.md). Needs a finished
# build with the cuda target.
#
#     tools/gpu-check.sh [-o FILE.tar.xz] [--gpu-arch LIST] [--small]        default: build/gpu-check.tar.xz
exec python3 -B "$(dirname "$0")/gpu_check/pack.py" "$@"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what Ashlar needs from Debian's packages (as root, or with sudo), and prints one line of what is optional and not there. Optional,
# and never installed here:
#   CUDA toolkit 13 (ptxas, libdevice, headers of CUDA, cuBLASLt, cuDNN 9 and NCCL): the cuda target and its emulator; without it
#                                their tests skip
#   PyTorch                      the peer that test/bench/*_torch.py measure
#   TensorBoard                  test runtime.launch reads events back by its reader
#   iproute2, and root           tests hosts and conformance.two_hosts; root also for e2e_full_disk, which mounts a small disk
#   MNIST in ASHLAR_DATA/mnist   test e2e_train_mnist
set -euo pipefail

packages=(
  ccache clang-22 clang-format-22 cmake libclang-rt-22-dev lld-22 ninja-build # build
  libmlir-22-dev llvm-22-dev llvm-22-tools mlir-22-tools libzstd-dev zlib1g-dev # compiler
  libjpeg62-turbo-dev libpng-dev # data
  coinor-libcbc-dev libcli11-dev libfmt-dev libonnx-dev libprotobuf-dev protobuf-compiler
  libpmix-dev libxxhash-dev nlohmann-json3-dev openmpi-bin pkg-config       # runtime
  catch2 chromium dpkg-dev libbenchmark-dev libopenmpi-dev python3          # tests, and the peer of test/bench/all_reduce.cpp
)

optional=()
[ -n "${CUDA_HOME:-}${CUDA_PATH:-}" ] || command -v nvcc >/dev/null || [ -e /usr/local/cuda/bin/ptxas ] || optional+=("CUDA toolkit")
python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null || optional+=("PyTorch")
python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("tensorboard") is None)' 2>/dev/null || optional+=("TensorBoard")
command -v ip >/dev/null || optional+=("iproute2")
[ "$(id -u)" -eq 0 ] || optional+=("root")
[ -d "${ASHLAR_DATA:-}/mnist" ] || optional+=("MNIST (ASHLAR_DATA)")
if [ "${#optional[@]}" -gt 0 ]; then
  (IFS=,; echo "optional and not found (tools/setup.sh says what for): ${optional[*]}" | sed 's/,/, /g')
fi

missing=()
for package in "${packages[@]}"; do
  [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) = *'install ok installed'* ]] || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi

sudo=""
if [ "$(id -u)" -ne 0 ]; then
  sudo=$(command -v sudo) || { echo "error: ${#missing[@]} packages are missing (${missing[*]}) and this is neither root nor is there sudo" >&2; exit 1; }
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y "${missing[@]}" | sed -n '/^\(Need to get\|Fetched\|Unpacking\|Setting up\) /p'

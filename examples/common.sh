# SPDX-License-Identifier: Apache-2.0
#
# The common part of the examples, which run.sh of each one sources: arguments, programs, the folder of outputs.
#   examples/NAME/run.sh [--small] [--out DIR]    --small: a small model and few steps, for tests; DIR: default build/examples/NAME

set -euo pipefail
example=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$example")
root=$(cd "$example/../.." && pwd)
small=false
out=$root/build/examples/$name
while [ $# -gt 0 ]; do
  case $1 in
    --small) small=true ;;
    --out)
      [ $# -ge 2 ] || { echo "error: --out needs a folder" >&2; exit 2; }
      out=$2
      shift
      ;;
    *)
      echo "error: unknown option $1; usage: examples/$name/run.sh [--small] [--out DIR]" >&2
      exit 2
      ;;
  esac
  shift
done

# The programs of the installation ASHLAR_PREFIX, else those of the build folder, else those of PATH.
if [ -n "${ASHLAR_PREFIX:-}" ]; then
  [ -x "$ASHLAR_PREFIX/bin/ashlarc" ] || { echo "error: ASHLAR_PREFIX is $ASHLAR_PREFIX, but there is no $ASHLAR_PREFIX/bin/ashlarc" >&2; exit 1; }
  PATH=$ASHLAR_PREFIX/bin:$PATH
elif [ -x "$root/build/bin/ashlarc" ]; then
  PATH=$root/build/bin:$PATH
fi
command -v ashlarc > /dev/null || { echo "error: no ashlarc in $root/build/bin or PATH; build it with tools/quickstart.sh, or set ASHLAR_PREFIX" >&2; exit 1; }

# Examples run as root, too, and with more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# The writers of .npy files for Python.
export PYTHONPATH=$root/test/e2e PYTHONDONTWRITEBYTECODE=1
mkdir -p "$out"
cd "$out"

# Prints a command and runs it.
show() {
  printf '$ %s\n' "$*"
  "$@"
}

# Trains a program and evaluates it, with output to NAME.log too: train NAME RANKS [OPTIONS]. Each rank has its share of the cores.
train() {
  local program=$1 ranks=$2
  shift 2
  show mpirun --quiet -n "$ranks" "./$program" --eval "$@" | tee "$program.log"
}

# Prints the last line of an example, from the evaluation of NAME.log: result NAME.
result() {
  printf '%s: %s\n' "$name" "$(sed -n 's/^eval: //p' "$1.log")"
}

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Generates parts of docs: the reference from td files and job.proto, and the columns of the table in docs/onnx.md from what its tests import.
# tools/update_docs.sh [--check] [--onnx-page FILE] [BUILD]
# --check: changes nothing; exit status 1, naming the files, when one is stale.
# --onnx-page FILE: docs/onnx.md as a run of test_frontend with ASHLAR_ONNX_PAGE=FILE wrote it; default: a new run.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
check=false
page=
while [ $# -gt 0 ]; do
  case $1 in
    --check) check=true ;;
    --onnx-page) page=${2:?} && shift ;;
    *) break ;;
  esac
  shift
done
build=${1:-$root/build}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ "$page" = "" ]; then
  page=$scratch/onnx.md
  if ! log=$(ASHLAR_ONNX_PAGE=$page "$build/bin/test_frontend" 2>&1); then
    tail -n 40 <<< "$log" >&2
    echo "error: test_frontend fails, which fills the table of docs/onnx.md" >&2
    exit 1
  fi
fi
python3 -B "$root/tools/job_reference.py" "$root" "$scratch/job.md"

stale=()
copy() {
  if $check; then
    cmp -s "$1" "$root/docs/$2" || stale+=("docs/$2")
  else
    cp "$1" "$root/docs/$2"
  fi
}
copy "$page" onnx.md
copy "$scratch/job.md" reference/job.md
pages=(job.md)
for dialect in nn dist exec; do
  copy "$build/dialects/$dialect/$dialect.md" "reference/dialect_$dialect.md"
  pages+=("dialect_$dialect.md")
done
# Every room with passes has a page.
for td in "$root"/passes/*/passes.td "$root"/compiler/*/passes.td; do
  folder=$(dirname "${td#"$root/"}")
  copy "$build/$folder/passes.md" "reference/passes_${folder##*/}.md"
  pages+=("passes_${folder##*/}.md")
done
# And no page is left of a room that is gone.
for file in "$root"/docs/reference/*.md; do
  [[ " ${pages[*]} " = *" ${file##*/} "* ]] || { echo "error: docs/reference/${file##*/} is generated from nothing; delete it" >&2; exit 1; }
done
if [ ${#stale[@]} -gt 0 ]; then
  echo "error: ${stale[*]} differ from what the code says; run tools/update_docs.sh" >&2
  exit 1
fi

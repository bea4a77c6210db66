#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Breaks the code in one line at a time and looks whether a test notices (docs/howto/test.md): tools/mutate.sh [PATCH...]
#
# Each file of test/mutations is a patch whose head says what it breaks and which tests must fail. All happens in a copy of the tree, mounted
# in the place of the tree for this script alone, so that the build of it goes on where it was. Needs a finished build, and root or user
# namespaces. Prints the survivors; the last line is "N killed, N survived[, N equivalent]"; exit status 0 when none survived.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build_seconds=1200 test_seconds=300

# A mount of its own hides the tree behind its copy.
if [ "${ASHLAR_MUTATE_COPY:-}" = "" ]; then
  [ -x "$root/build/bin/ashlarc" ] || { echo "error: $root/build has no finished build; run tools/check.sh first" >&2; exit 1; }
  copy=$(mktemp -d "${TMPDIR:-/tmp}/ashlar-mutate-XXXXXX") || exit 1
  trap 'rm -rf "$copy"' EXIT
  cp -a "$root/." "$copy/" || exit 1
  namespace=(unshare --mount --propagation private)
  [ "$(id -u)" -eq 0 ] || namespace=(unshare --user --map-root-user --mount --propagation private)
  # shellcheck disable=SC2016 # expanded inside
  ASHLAR_MUTATE_COPY=$copy "${namespace[@]}" bash -c 'mount --bind "$ASHLAR_MUTATE_COPY" "$0" && cd "$0" && exec tools/mutate.sh "$@"' "$root" "$@"
  exit $?
fi

cd "$root" || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
lit=$(sed -n 's/^ASHLAR_LIT:[A-Z]*=//p' build/CMakeCache.txt)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Prints the targets that a test needs.
targets_of() {
  local kind=$1 name=$2
  case $kind:$name in
    lit:* | ctest:e2e_*) echo ashlarc ashlar-opt ashlar-zoo ashlar-fuzz ashlar_rt ;;
    options:*) echo ashlarc ashlar_rt test_job ;;
    cases:execution | cases:mesh | cases:fuzz) echo "test_$name" ashlarc ashlar_rt ;;
    cases:*) echo "test_$name" ;;
    ctest:conformance.*) echo ashlar_conformance ;;
    ctest:runtime.launch) echo toy_program ;;
    ctest:fuzz_*) echo ashlar-fuzz ashlar_rt ;;
    *) echo all ;;
  esac
}

# Runs a test: "lit FILE", "cases PROGRAM [FILTER]", "options CASE...", "ctest NAME".
run_test() {
  local kind=$1
  shift
  case $kind in
    lit) timeout $test_seconds python3 test/run_lit.py "$lit" build/test --filter "$1" ;;
    cases) timeout $test_seconds "build/bin/test_$1" ${2:+"$2"} --warn NoTests ;;
    options) timeout $test_seconds python3 test/job_options/job_options.py build/bin "$scratch/options" "$@" ;;
    ctest) timeout $test_seconds ctest --test-dir build -R "^$1\$" --no-tests=error ;;
    *) echo "error: unknown kind of test \"$kind\"" >&2; return 2 ;;
  esac
}

# Prints the values of a key in a patch's head, one a line.
head_of() {
  sed -n "/^--- /q; s/^# $2: //p" "$1"
}

build_for() {
  local -a words targets=()
  while read -ra words; do
    # shellcheck disable=SC2207 # words without blanks
    targets+=($(targets_of "${words[0]}" "${words[1]:-}"))
  done < <(head_of "$1" test)
  timeout $build_seconds ninja -C build "${targets[@]}" > "$scratch/build.log" 2>&1
}

# Whether all tests of a patch pass. A filter may hold blanks: it is all behind the program's name.
tests_pass() {
  local line kind name rest
  local -a words
  while IFS= read -r line; do
    read -r kind name rest <<< "$line"
    words=("$kind" "$name")
    if [ "$kind" = options ]; then
      read -ra words <<< "$line"
    elif [ -n "$rest" ]; then
      words+=("$rest")
    fi
    run_test "${words[@]}" < /dev/null > "$scratch/test.log" 2>&1 || return 1
  done < <(head_of "$1" test)
}

patches=("$@")
[ $# -gt 0 ] || patches=(test/mutations/*.patch)
killed=0 survivors=() equivalent=0 errors=0
error() {
  echo "error: $*" >&2
  errors=$((errors + 1))
}

declare -A sound # tests that are known to pass on the code as it is
for patch in "${patches[@]}"; do
  tests=$(head_of "$patch" test)
  [ -n "$tests" ] && [ -n "$(head_of "$patch" breaks)" ] || { error "$patch does not say what it breaks and which test fails"; continue; }
  if [ -z "${sound[$tests]:-}" ]; then
    build_for "$patch" || { tail -5 "$scratch/build.log" >&2; error "$patch: the code as it is does not build"; continue; }
    tests_pass "$patch" || { tail -5 "$scratch/test.log" >&2; error "$patch: its tests fail on the code as it is"; continue; }
    sound[$tests]=yes
  fi
  patch -p1 --dry-run --force < "$patch" > "$scratch/patch.log" 2>&1 || { cat "$scratch/patch.log" >&2; error "$patch no longer applies"; continue; }
  patch -p1 --force --no-backup-if-mismatch < "$patch" > /dev/null
  if ! build_for "$patch"; then
    tail -5 "$scratch/build.log" >&2
    error "$patch does not build"
  elif ! tests_pass "$patch"; then
    killed=$((killed + 1))
    echo "killed: $(basename "$patch")"
  elif [ -n "$(head_of "$patch" equivalent)" ]; then
    equivalent=$((equivalent + 1))
    echo "equivalent: $(basename "$patch"): $(head_of "$patch" equivalent)"
  else
    survivors+=("$(basename "$patch"): $(head_of "$patch" breaks)")
    echo "SURVIVED: ${survivors[-1]}"
  fi
  patch -p1 --force --reverse --no-backup-if-mismatch < "$patch" > /dev/null || { error "$patch cannot be taken back"; break; }
done

for survivor in ${survivors[@]+"${survivors[@]}"}; do
  echo "survivor: $survivor"
done
echo "$killed killed, ${#survivors[@]} survived$([ $equivalent -gt 0 ] && echo ", $equivalent equivalent")$([ $errors -gt 0 ] && echo ", $errors errors")"
[ ${#survivors[@]} -eq 0 ] && [ $errors -eq 0 ] && [ $killed -gt 0 ]

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Breaks the code in one place at a time and checks that a test fails (docs/howto/test.md):
#   tools/mutate.sh [--shard K/N] [--resume] [PATCH...]
#   tools/mutate.sh --summary
#
# Each file of test/mutations is a patch whose head names what it breaks and which tests must fail. All happens in a copy of the tree, mounted
# over the tree for this script alone, so that other builds in the tree go on and the tree is unchanged. The copy holds the sources and what
# ninja has built, but no outputs of tests. Needs a finished build, git, and root or user namespaces. Prints the survivors; the last line is
# "N killed, N survived[, N equivalent][, N errors]"; exit status 0 when none survived and none is an error.
#
# More than three patches are compiled at once, as far as mutants.py can join them, and each is selected by an environment variable. The
# others, and those that survive in the joint build, are built one by one: a survivor is always a survivor of a build of its own.
#
# --shard K/N: the K-th of N equal parts of the patches, K from 1 on. Every part has all patches in its joint build, so that the compiler
#   cache has it after the first.
# --resume: skips patches with a result of the same patch and the same sources.
# --summary: runs nothing; counts the latest result of every patch. Results are appended to build/mutations.tsv.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
results=$root/build/mutations.tsv
build_seconds=1200 joint_build_seconds=7200
# Limits of a test on the code as it is, and on a mutant; there it may also take ten times as long as on the code as it is.
sound_seconds=1800 mutant_seconds=300

# Prints a hash of what decides on the result of a patch besides the patch: all files but docs, other patches, and how they are run.
hash_sources() {
  (cd "$root" && git ls-files -co --exclude-standard -z -- ':!docs' ':!test/mutations' ':!tools/mutate.sh' ':!tools/mutants.py' | xargs -0 sha1sum 2> /dev/null | sha1sum | cut -c1-12)
}

# Prints a hash of a patch.
hash_patch() {
  sha1sum < "$1" | cut -c1-12
}

# Counts the latest result of each patch. The last line is as that of a run, with the patches that have none.
summarize() {
  local sources patch
  sources=$(hash_sources)
  touch "$results"
  for patch in "$root"/test/mutations/*.patch; do
    printf '%s\t%s\n' "$(basename "$patch")" "$(hash_patch "$patch")"
  done | awk -F '\t' -v sources="$sources" '
    FILENAME != "-" { if ($1 != "") { verdict[$2 "\t" $3] = $1; of[$2 "\t" $3] = $4; seconds[$2 "\t" $3] = $5; text[$2 "\t" $3] = $6 } next }
    {
      key = $1 "\t" $2
      if (!(key in verdict)) { ++missing; next }
      ++count[verdict[key]]; total += seconds[key]; other += of[key] != sources
      if (verdict[key] == "survived") print "survivor: " $1 ": " text[key]
      if (verdict[key] == "error") print "error: " $1 ": " text[key]
    }
    END {
      printf "%d of the results are of other sources; %d s in all\n", other, total
      printf "%d killed, %d survived", count["killed"], count["survived"]
      if (count["equivalent"]) printf ", %d equivalent", count["equivalent"]
      if (count["error"]) printf ", %d errors", count["error"]
      if (missing) printf ", %d not run", missing
      print ""
      exit count["survived"] || count["error"] || missing
    }' "$results" -
}

# Copies the sources, and of the build what ninja makes or reads and what CMake configures again. Outputs of tests take gigabytes.
copy_tree() {
  mkdir -p "$1/build" || return 1
  tar -C "$root" --format=posix --exclude='./build*' -cf - . | tar -C "$1" -xpf - || return 1
  # shellcheck disable=SC2016 # expanded inside
  (cd "$root/build" && {
    find . -maxdepth 1 -type f
    find . -path ./test/e2e/\* -prune -o \( -path '*/CMakeFiles/*' -o -name '*.cmake' \) -type f -print
    ninja -t targets all | sed 's/: [^:]*$//' | sort -u | while IFS= read -r file; do [ ! -f "$file" ] || printf "%s\n" "$file"; done
  } | sed "s,^\./,,; s,^$root/build/,," | grep -v '^/' | sort -u | tar --format=posix -T - -cf -) | tar -C "$1/build" -xpf -
}

shard=0 shards=1 resume=
patches=()
while [ $# -gt 0 ]; do
  case $1 in
    --summary) summarize; exit ;;
    --resume) resume=--resume ;;
    --shard)
      [[ ${2:-} =~ ^([1-9][0-9]{0,5})/([1-9][0-9]{0,5})$ ]] && [ "${BASH_REMATCH[1]}" -le "${BASH_REMATCH[2]}" ] ||
        { echo "error: --shard \"${2:-}\" is not K/N with K from 1 to N" >&2; exit 1; }
      shard=${BASH_REMATCH[1]} shards=${BASH_REMATCH[2]}
      shift
      ;;
    -*) echo "error: unknown option $1" >&2; exit 1 ;;
    *) patches+=("$1") ;;
  esac
  shift
done
[ ${#patches[@]} -gt 0 ] || patches=("$root"/test/mutations/*.patch)
candidates=() # for the joint build, besides the patches of this run
if [ "$shard" -gt 0 ]; then
  candidates=("${patches[@]}")
  # Neighbours in the order of names share files and tests.
  first=$(((shard - 1) * ${#patches[@]} / shards))
  patches=("${patches[@]:first:shard * ${#patches[@]} / shards - first}")
fi

# A mount of its own hides the tree behind its copy. Results go to the tree that is hidden.
if [ "${ASHLAR_MUTATE_COPY:-}" = "" ]; then
  [ -x "$root/build/bin/ashlarc" ] || { echo "error: $root/build has no finished build; run tools/check.sh first" >&2; exit 1; }
  sources=$(hash_sources)
  if [ "$resume" ]; then
    left=()
    for patch in ${patches[@]+"${patches[@]}"}; do
      grep -qE "^(killed|equivalent|survived)	$(basename "$patch" | sed 's/\./\\./g')	$(hash_patch "$patch")	$sources	" "$results" 2> /dev/null || left+=("$patch")
    done
    echo "$((${#patches[@]} - ${#left[@]})) of ${#patches[@]} have a result"
    patches=(${left[@]+"${left[@]}"})
  fi
  [ ${#patches[@]} -gt 0 ] || { echo "0 killed, 0 survived"; exit 0; }
  copy=$(mktemp -d "${TMPDIR:-/tmp}/ashlar-mutate-XXXXXX") || exit 1
  trap 'rm -rf "$copy"' EXIT
  copy_tree "$copy" || { echo "error: the tree cannot be copied to $copy" >&2; exit 1; }
  for i in "${!patches[@]}"; do
    # A patch from elsewhere goes along.
    patches[i]=$(realpath "${patches[i]}")
    [ "${patches[i]#"$root/"}" = "${patches[i]}" ] || continue
    cp "${patches[i]}" "$copy/build/" && patches[i]=$root/build/$(basename "${patches[i]}")
  done
  for patch in ${candidates[@]+"${candidates[@]}"}; do
    realpath "$patch"
  done > "$copy/build/candidates"
  namespace=(unshare --mount --propagation private)
  [ "$(id -u)" -eq 0 ] || namespace=(unshare --user --map-root-user --mount --propagation private)
  # shellcheck disable=SC2016 # expanded inside
  ASHLAR_MUTATE_COPY=$copy ASHLAR_MUTATE_SOURCES=$sources "${namespace[@]}" \
    bash -c 'mount --bind "$ASHLAR_MUTATE_COPY" "$0" && cd "$0" && exec tools/mutate.sh "$@"' "$root" "${patches[@]}" 3>> "$results"
  exit $?
fi

cd "$root" || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
lit=$(sed -n 's/^ASHLAR_LIT:[A-Z]*=//p' build/CMakeCache.txt)
unset ASHLAR_MUTANT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Folders of tests, which are no outputs of ninja.
cmake build > "$scratch/build.log" 2>&1 || { tail -5 "$scratch/build.log" >&2; exit 1; }
mapfile -t programs < <(ninja -C build -t targets all | sed -n 's,^bin/\([^:/]*\): .*,\1,p' | sort)

# Prints the programs of ours that files name, and what links what ashlarc compiles.
programs_in() {
  local -a found
  mapfile -t found < <(cat "$@" | tr -cs '[:alnum:]_-' '\n' | sort -u | comm -12 - <(printf '%s\n' "${programs[@]}"))
  [[ " ${found[*]} " != *" ashlarc "* && " ${found[*]} " != *" ashlar-fuzz "* ]] || found+=(ashlarc ashlar_rt)
  echo "${found[@]}"
}

# Prints the targets that a test needs.
targets_of() {
  local kind=$1 name=$2
  local -a files
  case $kind:$name in
    lit:*)
      mapfile -t files < <(cd test && find . \( -name '*.mlir' -o -name '*.test' \) | sed 's,^\./,,' | grep -E -- "$name" | sed 's,^,test/,')
      [ ${#files[@]} -gt 0 ] && programs_in "${files[@]}" || echo all
      ;;
    options:*) echo ashlarc ashlar_rt test_job ;;
    cases:execution | cases:mesh | cases:fuzz) echo "test_$name" ashlarc ashlar_rt ;;
    cases:*) echo "test_$name" ;;
    ctest:e2e_*) echo ashlarc ashlar_rt "$(programs_in "test/e2e/${name#e2e_}".* test/e2e/common.sh)" ;;
    ctest:conformance.*) echo ashlar_conformance ;;
    ctest:runtime.*) echo toy_program ;;
    ctest:fuzz_*) echo ashlarc ashlar-fuzz ashlar_rt ;;
    ctest:count_cases | ctest:lint.arrows | ctest:lint.pipes) ;;
    *) [ -x "build/bin/test_$name" ] && echo "test_$name" || echo all ;;
  esac
}

test_seconds=$sound_seconds
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
  sed -n "/^[^#]/q; s/^# $2: //p" "$1"
}

# Builds what the tests of some patches need: build_for SECONDS PATCH...
build_for() {
  local seconds=$1
  local -a words targets=()
  shift
  while read -ra words; do
    # shellcheck disable=SC2207 # words without blanks
    targets+=($(targets_of "${words[0]}" "${words[1]:-}"))
  done < <(for each in "$@"; do head_of "$each" test; done | sort -u)
  [ ${#targets[@]} -eq 0 ] || timeout "$seconds" ninja -k 0 -C build "${targets[@]}" > "$scratch/build.log" 2>&1
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
    run_test "${words[@]}" < /dev/null > "$scratch/test.log" 2>&1 3>&- || return 1
  done < <(head_of "$1" test)
}

killed=0 survivors=() equivalent=0 errors=0 started=0
# record VERDICT [TEXT]: appends a line of the results of a patch.
record() {
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$(basename "$patch")" "$(hash_patch "$patch")" "$ASHLAR_MUTATE_SOURCES" $((SECONDS - started)) "${2:-}" >&3
}
error() {
  echo "error: $patch $*" >&2
  errors=$((errors + 1))
  record error "$*"
}

# Compiles all patches at once: afterwards `joined` has the IDs of those that the environment variable ASHLAR_MUTANT can select.
declare -A joined
join() {
  local -a candidates blamed
  local patch id begin=$SECONDS
  mapfile -t candidates < <({ cat build/candidates; printf '%s\n' "${patches[@]}"; } | sort -u)
  while :; do
    python3 tools/mutants.py join build/mutants ${candidates[@]+"${candidates[@]}"} > "$scratch/joined" || exit 1
    build_for $joint_build_seconds "${patches[@]}" && break
    mapfile -t blamed < <(python3 tools/mutants.py blame build/mutants "$scratch/build.log")
    if [ ${#blamed[@]} -gt 0 ]; then
      mapfile -t candidates < <(printf '%s\n' "${candidates[@]}" | grep -vxFf <(printf '%s\n' "${blamed[@]}"))
    elif [ ${#candidates[@]} -gt 0 ]; then
      grep -m 5 -E 'error:|FAILED' "$scratch/build.log" >&2
      candidates=()
    else
      break # each patch reports it
    fi
  done
  while IFS=$'\t' read -r id patch; do
    joined[$patch]=$id
  done < "$scratch/joined"
  echo "${#joined[@]} mutants in a build of $((SECONDS - begin)) s"
}
[ ${#patches[@]} -le 3 ] || join

is_stale= # whether programs may be those of a patch that was built by itself
# Whether a patch is killed in a build of its own: 0, 1 when it survives, 2 after an error.
is_killed_alone() {
  local file status=1
  file=$(python3 tools/mutants.py file "$patch" 2> "$scratch/patch.log") && cp "$file" "$scratch/source" 2> "$scratch/patch.log" &&
    python3 tools/mutants.py apply build/mutants "$patch" 2> "$scratch/patch.log" ||
    { error "$(sed -n '$s/^error: //p' "$scratch/patch.log")"; return 2; }
  if ! build_for $build_seconds "$patch"; then
    tail -5 "$scratch/build.log" >&2
    error "does not build"
    status=2
  elif ! tests_pass "$patch"; then
    status=0
  fi
  cat "$scratch/source" > "$file"
  is_stale=yes
  return $status
}

# Whether a patch is killed; of one that no test can kill the joint build suffices.
is_killed() {
  if [ -n "${joined[$patch]:-}" ]; then
    [ -z "$is_stale" ] || build_for $build_seconds "$patch" || { error "the joint build fails again"; return 2; }
    ASHLAR_MUTANT=${joined[$patch]} tests_pass "$patch" || return 0
    [ -z "$(head_of "$patch" equivalent)" ] || return 1
  fi
  is_killed_alone
}

declare -A sound # seconds of tests that pass on the code as it is
for patch in "${patches[@]}"; do
  started=$SECONDS
  [ -r "$patch" ] || { error "is not there"; continue; }
  tests=$(head_of "$patch" test)
  [ -n "$tests" ] && [ -n "$(head_of "$patch" breaks)" ] || { error "does not say what it breaks and which test fails"; continue; }
  if [ -z "${sound[$tests]:-}" ]; then
    build_for $build_seconds "$patch" || { tail -5 "$scratch/build.log" >&2; error "the code as it is does not build"; continue; }
    begin=$SECONDS test_seconds=$sound_seconds
    tests_pass "$patch" || { tail -5 "$scratch/test.log" >&2; error "its tests fail on the code as it is"; continue; }
    sound[$tests]=$((SECONDS - begin))
  fi
  test_seconds=$((sound[$tests] * 10 > mutant_seconds ? sound[$tests] * 10 : mutant_seconds))
  is_killed
  case $? in
    0)
      killed=$((killed + 1))
      echo "killed: $(basename "$patch")"
      record killed
      ;;
    1)
      if [ -n "$(head_of "$patch" equivalent)" ]; then
        equivalent=$((equivalent + 1))
        echo "equivalent: $(basename "$patch"): $(head_of "$patch" equivalent)"
        record equivalent
      else
        survivors+=("$(basename "$patch"): $(head_of "$patch" breaks)")
        echo "SURVIVED: ${survivors[-1]}"
        record survived "$(head_of "$patch" breaks)"
      fi
      ;;
  esac
done

for survivor in ${survivors[@]+"${survivors[@]}"}; do
  echo "survivor: $survivor"
done
echo "$killed killed, ${#survivors[@]} survived$([ $equivalent -gt 0 ] && echo ", $equivalent equivalent")$([ $errors -gt 0 ] && echo ", $errors errors")"
[ ${#survivors[@]} -eq 0 ] && [ $errors -eq 0 ] && [ $killed -gt 0 ]

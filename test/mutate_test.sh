#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/mutate.sh on a small tree: parts, results that are kept, a copy without outputs of tests, and mutants of one build.
# mutate_test.sh ROOT
set -euo pipefail
root=$(cd "$1" && pwd)
unshare --mount true 2> /dev/null || unshare --user --map-root-user --mount true 2> /dev/null || { echo "skipped: no namespaces here"; exit 77; }
command -v git > /dev/null || { echo "skipped: no git"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/tools" "$work/tree/test/mutations" "$work/tmp"
cd "$work/tree"
export TMPDIR=$work/tmp

fail() {
  cat "$work/log" >&2
  echo "FAILED: $*" >&2
  exit 1
}

# A program of two numbers and a test of the first; outputs of tests in the build's folder. The test asserts that it has no copy of them.
cp "$root/tools/mutate.sh" "$root/tools/mutants.py" tools/
printf 'one 1\ntwo 2\n' > numbers.txt
cat > CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.20)
project(small NONE)
enable_testing()
add_custom_command(OUTPUT bin/ashlarc COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/numbers.txt bin/ashlarc
                   COMMAND chmod +x bin/ashlarc DEPENDS ${PROJECT_SOURCE_DIR}/numbers.txt)
add_custom_target(all_programs ALL DEPENDS bin/ashlarc)
add_test(NAME first COMMAND sh -c "grep -q '^one 1' bin/ashlarc && ! [ -e test/e2e/first/outputs ] || [ -e alone ]")
END
echo /build/ > .gitignore
cmake -G Ninja -S . -B build > "$work/log" 2>&1 && ninja -C build >> "$work/log" 2>&1 || fail "the small tree does not build"
mkdir -p build/test/e2e/first
echo outputs > build/test/e2e/first/outputs
git init -q .

# mutant NAME FROM TO [HEAD]: a patch of one line of numbers.txt.
mutant() {
  local context
  context=$([ "$2" = "one 1" ] && printf -- '-one 1\n+%s\n two 2' "$3" || printf -- ' one 1\n-two 2\n+%s' "$3")
  printf '# breaks: %s is %s\n%s# test: ctest first\n--- a/numbers.txt\n+++ b/numbers.txt\n@@ -1,2 +1,2 @@\n%s\n' "$2" "$3" "${4:-}" "$context" \
    > "test/mutations/$1.patch"
}
mutant a "one 1" "one 7"
mutant b "two 2" "two 7"
mutant c "one 1" "one 8"
mutant d "two 2" "two 8" $'# equivalent: nothing reads it\n'

# runs EXPECTED STATUS OPTION...: the last line and the exit status.
runs() {
  local expected=$1 wanted=$2 status=0
  shift 2
  tools/mutate.sh "$@" > "$work/log" 2>&1 || status=$?
  [ "$(tail -1 "$work/log")" = "$expected" ] && [ $status -eq "$wanted" ] || fail "mutate.sh $*: status $status, not \"$expected\" and $wanted"
}
runs "0 killed, 0 survived, 4 not run" 1 --summary
runs "1 killed, 1 survived" 1 --shard 1/2
grep -q "^survivor: b.patch: two 2 is two 7" "$work/log" || fail "the survivor is not printed"
runs "1 killed, 1 survived, 2 not run" 1 --summary
runs "1 killed, 0 survived, 1 equivalent" 0 --shard 2/2
runs "2 killed, 1 survived, 1 equivalent" 1 --summary
# Nothing is left to do, until a patch or the sources change.
runs "0 killed, 0 survived" 0 --resume
mutant b "one 1" "one 9"
runs "1 killed, 0 survived" 0 --resume
runs "3 killed, 0 survived, 1 equivalent" 0 --summary
echo "# more" >> CMakeLists.txt
runs "2 killed, 0 survived" 0 --resume test/mutations/a.patch test/mutations/b.patch
grep -q "^0 of 2 have a result" "$work/log" || fail "results of other sources count"
# A patch that does not apply is an error, and is tried again.
sed -i "s/^-one 1/-one 2/" test/mutations/a.patch
runs "0 killed, 0 survived, 1 errors" 1 test/mutations/a.patch
runs "0 killed, 0 survived, 1 errors" 1 --resume test/mutations/a.patch
tools/mutate.sh --summary > "$work/log" && fail "an error counts as success"
grep -q "^error: a.patch: no longer applies" "$work/log" || fail "the summary does not name the error"
for shard in 0/2 3/2 2 x; do
  ! tools/mutate.sh --shard $shard > "$work/log" 2>&1 || fail "--shard $shard is accepted"
done
[ "$(cat numbers.txt)" = $'one 1\ntwo 2' ] || fail "the tree has changed"
[ -z "$(ls "$TMPDIR")" ] || fail "left behind: $(ls "$TMPDIR")"

# Mutants of one build. The program prints 5; what is no code in a function, does not compile or survives is built by itself.
rm test/mutations/*
cat > sum.cpp << 'END'
#include <cstdio>
constexpr int kOne = 1;
namespace small {
struct Pair {
  explicit Pair(int x) : a(x), b{x} {
    b += 1;
  }
  int a, b;
};
int half(int x) {
  auto divide = [&](int by) { return x / by; };
  return divide(2);
}
void print(int x) {
  std::printf("%d\n", x);
}
} // namespace small
int main() {
  small::print(small::half(4) + small::Pair(1).b + kOne);
}
END
cat > CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.20)
project(small CXX)
enable_testing()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
add_executable(ashlarc sum.cpp)
add_test(NAME sum COMMAND sh -c "bin/ashlarc | grep -x 5")
END
rm -rf build
cmake -G Ninja -S . -B build > "$work/log" 2>&1 && ninja -C build >> "$work/log" 2>&1 || fail "the small program does not build"

# line NAME FUNCTION FROM TO [CONTEXT]: a patch of one line of sum.cpp, with a context that may be wrong.
line() {
  printf '# breaks: %s\n# test: ctest sum\n# in: sum.cpp%s\n%s-%s\n+%s\n' "$1" "${2:+ $2}" "${5:+ $5$'\n'}" "$3" "$4" > "test/mutations/$1.patch"
}
line constant "" "constexpr int kOne = 1;" "constexpr int kOne = 2;"
line constructor Pair "b += 1;" "b += 2;" "a context that has changed"
line call print '  std::printf("%d\n", x);' '  std::printf("%d%d\n", x, x);'
line lambda half "  auto divide = [&](int by) { return x / by; };" "  auto divide = [&](int by) { return x + by; };"
line result half "  return divide(2);" "  return divide(3);"
line same half "  return divide(2);" "  return divide(2) + 0;"
line unknown half "  return divide(2);" "  return multiply(2);"
line gone print "  return divide(2);" "  return divide(3);"
line several "" "}" "};"
runs "5 killed, 1 survived, 3 errors" 1
grep -q "^5 mutants in a build of" "$work/log" || fail "not all mutants of functions were joined"
runs "5 killed, 1 survived, 3 errors" 1 --summary
grep -q "^error: unknown.patch: does not build" "$work/log" || fail "what does not compile is not named"
grep -q "^error: gone.patch: no longer applies" "$work/log" || fail "a line that is gone is not named"
grep -q "^error: several.patch: fits several places" "$work/log" || fail "a place that is not the only one is not named"
echo "parts, results and errors of mutations, one by one and together"

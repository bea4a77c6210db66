# SPDX-License-Identifier: Apache-2.0
#
# tools/quickstart.sh on a finished build: a model that learnt, and three commands that work as printed.

. "$(dirname "$0")/common.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)
if [ "$(dirname "$tools")" != "$root/build" ]; then
  echo "skipped: the build is not in build/"
  exit 77
fi
start=$SECONDS
bash "$root/tools/quickstart.sh" > quickstart.log 2>&1 || { cat quickstart.log; fail "quickstart"; }
# Under a minute on two idle cores; a machine that does other things as well may take longer.
echo "quickstart took $((SECONDS - start)) s"
[ $((SECONDS - start)) -lt 300 ] || fail "quickstart took $((SECONDS - start)) s"
for line in mesh layouts collectives memory; do
  grep -q "^$line " quickstart.log || fail "the plan has no line $line"
done
expect_less 0.95 "$(accuracy quickstart.log)" "accuracy"

sed -n '/^Next:/,$ s/^  //p' quickstart.log > commands
[ "$(wc -l < commands)" = 3 ] || fail "quickstart prints $(wc -l < commands) commands, not 3"
(cd "$root" && while read -r command; do bash -c "$command" < /dev/null > /dev/null 2>&1 || fail "$command"; done) < commands

expect_error "--data /nowhere is not a folder" bash "$root/tools/quickstart.sh" --data /nowhere
expect_error "unknown option --foo" bash "$root/tools/quickstart.sh" --foo

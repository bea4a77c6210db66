# SPDX-License-Identifier: Apache-2.0
#
# The helpers of common.sh themselves: each refuses NaN, infinity, empty and garbled values, missing files and other counts, and knows its
# own bound. Every check runs in a shell of its own, as a test that uses the helper does.

. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)

# run SCRIPT: runs a script that has sourced common.sh.
run() {
  bash -c ". '$here/common.sh' '$tools' '$jobs'; $1" > helper.out 2> helper.err
}

passes() {
  run "$1" || { cat helper.err >&2; fail "is refused: $1"; }
}

refuses() {
  ! run "$1" || fail "passes: $1"
  grep -q '^FAILED: ' helper.err || { cat helper.err >&2; fail "refuses without a reason: $1"; }
}

# write_log FILE LOSS...: a log as a program prints it.
write_log() {
  local file=$1 step=0 loss
  shift
  for loss in "$@"; do
    step=$((step + 1))
    echo "epoch: 1 step: $step, loss is $loss, lr 0.1; 1.5 us a step, 12 samples/s"
  done > "$file"
  echo "trained $step steps in 0.1 s (1.0 us a step)" >> "$file"
}

bad_values=(nan -nan NaN NAN inf -inf Infinity "" " " 0x10 1e 1.2.3 1e999 1,5 null "1 2" "1.0 nan" e5 . - 1e300)

# Numbers as fmt prints them.
for value in 0 1 -1 0.5 2.3025851 -0.001 1e-05 1.5e+30 3.4028235e+38 1e-45; do
  passes "is_number $value"
done
write_log good.log 2.5 1.25 1e-05
write_log same.log 2.5 1.25 1e-05
write_log other.log 2.5 1.25 1.1e-05
write_log shorter.log 2.5 1.25
write_log none.log
: > empty.log
passes 'losses good.log'
[ "$(cat helper.out)" = $'2.5\n1.25\n1e-05' ] || fail "losses prints: $(cat helper.out)"
for value in "${bad_values[@]}"; do
  refuses "is_number '$value' || fail 'no number'"
  write_log bad.log 2.5 "$value" 1e-05
  refuses "losses bad.log"
  [ ! -s helper.out ] || fail "losses prints some of a log with \"$value\": $(cat helper.out)"
  refuses "losses bad.log | head -1"
  refuses "losses bad.log > x.losses"
  for helper in "expect_close %s %s 1e9" "expect_same_losses %s %s differ" "expect_other_losses %s %s equal"; do
    for pair in "bad.log bad.log" "good.log bad.log" "bad.log good.log"; do
      # shellcheck disable=SC2059,SC2086 # the helper is a format, the pair two words
      refuses "$(printf "$helper" $pair)"
    done
  done
  refuses "expect_less '$value' 1 value"
  refuses "expect_less 0 '$value' value"
  refuses "expect_less '$value' '$value' value"
  refuses "expect_close good.log good.log '$value'"
  echo "eval: loss is $value" > bad.log
  refuses "evaluation bad.log"
  echo "eval: loss is 0.5, accuracy is $value (1 of 2)" > bad.log
  refuses "accuracy bad.log"
done
for file in none.log empty.log missing.log; do
  refuses "losses $file"
  refuses "evaluation $file"
  refuses "accuracy $file"
  refuses "expect_close $file $file 1"
  refuses "expect_same_losses $file $file differ"
  refuses "expect_other_losses $file good.log equal"
  refuses "expect_other_losses good.log $file equal"
  refuses "expect_less \"\$(losses $file | tail -1)\" 1 value"
done
refuses 'expect_close good.log shorter.log 1'
refuses 'expect_close shorter.log good.log 1'
refuses 'expect_same_losses good.log shorter.log differ'
refuses 'expect_other_losses good.log shorter.log equal'

# The bounds: relative to the first, and met exactly.
write_log base.log 4 -4
write_log within.log 5 -3
write_log beyond.log 5.001 -3
write_log below.log 4 -5.001
passes 'expect_close base.log within.log 0.25'
refuses 'expect_close base.log within.log 0.2499'
refuses 'expect_close base.log beyond.log 0.25'
refuses 'expect_close base.log below.log 0.25'
write_log zero.log 0 0
passes 'expect_close zero.log zero.log 0'
refuses 'expect_close zero.log base.log 1'
passes 'expect_same_losses good.log same.log differ'
refuses 'expect_same_losses good.log other.log differ'
passes 'expect_other_losses good.log other.log equal'
refuses 'expect_other_losses good.log same.log equal'
passes 'expect_less 1 2 value'
passes 'expect_less -2e-05 -1e-05 value'
refuses 'expect_less 2 2 value'
refuses 'expect_less 2 1 value'
refuses 'expect_less 10 9 value'
echo 'eval: loss is 0.5000, accuracy is 0.2500 (1 of 4)' > eval.log
passes 'evaluation eval.log'
[ "$(cat helper.out)" = 'loss is 0.5000, accuracy is 0.2500 (1 of 4)' ] || fail "evaluation prints: $(cat helper.out)"
passes 'accuracy eval.log'
[ "$(cat helper.out)" = 0.2500 ] || fail "accuracy prints: $(cat helper.out)"
echo 'eval: loss is 0.5000' > eval.log
passes 'evaluation eval.log'
refuses 'accuracy eval.log'

# Folders of parameters: one file each, of two numbers.
write_parameters() {
  mkdir -p "$1"
  python3 - "$@" << 'PYTHON'
import sys
from npy_writer import write_npy
write_npy(sys.argv[1] + "/" + sys.argv[2], "f", (2,), [float(sys.argv[3]), float(sys.argv[4])])
PYTHON
}
rm -rf ones close far named nan_1 nan_2 inf_1 inf_2 none
write_parameters ones w.npy 1 1
write_parameters close w.npy 1 1.5
write_parameters far w.npy 1 1.75
write_parameters named v.npy 1 1
for value in nan inf; do
  write_parameters ${value}_1 w.npy 1 $value
  write_parameters ${value}_2 w.npy 1 $value
  refuses "expect_same_parameters ${value}_1 ${value}_2 1"
  refuses "expect_same_parameters ones ${value}_2 1"
  refuses "expect_same_parameters ${value}_1 ones 1"
done
mkdir none
passes 'expect_same_parameters ones ones 0'
passes 'expect_same_parameters ones close 0.2' # 0.5 of 1 + 1.5
refuses 'expect_same_parameters ones close 0.19'
refuses 'expect_same_parameters ones far 0.2'
refuses 'expect_same_parameters ones named 1'
refuses 'expect_same_parameters none none 1'
refuses 'expect_same_parameters ones missing 1'
refuses 'expect_same_parameters ones ones nan'

passes 'expect_error text bash -c "echo a text >&2; exit 3"'
refuses 'expect_error text bash -c "echo a text >&2"'
refuses 'expect_error text bash -c "echo a text; exit 3"'
refuses 'expect_error text bash -c "echo other >&2; exit 3"'
refuses 'expect_error text no_such_program'

# SPDX-License-Identifier: Apache-2.0
#
# What the end-to-end scripts share. Source it with the script's arguments: the folder of the tools and that of the jobs.

set -euo pipefail
tools=$1
jobs=$2
# Tests run as root too, and with more ranks than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# Python finds the writers of models and data beside this script, and leaves nothing in the source tree.
PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1

# Ends the test with a reason.
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Whether a text is one finite decimal number, as our programs print them: no NaN, no infinity, nothing that a double holds as one.
is_number() {
  [[ $1 =~ ^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE](-[0-9]{1,3}|\+?[0-2]?[0-9]{1,2}))?$ ]]
}

# Prints the losses of a log, one a line. Fails when there is none, and when one is no finite number; then it prints none.
losses() {
  local values value
  [ -r "$1" ] || fail "there is no log $1"
  values=$(sed -n 's/, lr [^,;]*\(, gradient norm [^;]*\)\?; .*//; s/^epoch: .*, loss is //p' "$1")
  [ -n "$values" ] || fail "$1 has no losses"
  while IFS= read -r value; do
    is_number "$value" || fail "$1 has the loss \"$value\", which is no finite number"
  done <<< "$values"
  printf '%s\n' "$values"
}

# Prints what a log says of the evaluation: "loss is 0.1, accuracy is 0.9 (9 of 10)", the second only of classes. Fails when there is none or
# a number is not finite.
evaluation() {
  local text parts
  [ -r "$1" ] || fail "there is no log $1"
  text=$(sed -n 's/^eval: //p' "$1")
  parts=${text#loss is }
  [ "$parts" != "$text" ] && is_number "${parts%%, accuracy is *}" || fail "$1 has the evaluation \"$text\", which has no finite loss"
  parts=${text#*, accuracy is }
  if [ "$parts" != "$text" ]; then
    [[ $parts =~ ^([^ ]+)' ('[0-9]+' of '[0-9]+')'$ ]] && is_number "${BASH_REMATCH[1]}" ||
      fail "$1 has the evaluation \"$text\", whose accuracy is no finite number"
  fi
  printf '%s\n' "$text"
}

# Prints the accuracy of a log's evaluation. Fails when there is none.
accuracy() {
  local text
  text=$(evaluation "$1") || exit 1
  [[ $text = *", accuracy is "* ]] || fail "$1 has no accuracy"
  text=${text#*, accuracy is }
  printf '%s\n' "${text%% *}"
}

# Fails unless the losses of two logs are as many and agree within the given relative tolerance.
expect_close() {
  is_number "$3" || fail "the tolerance \"$3\" is no finite number"
  losses "$1" > a.losses
  losses "$2" > b.losses
  [ "$(wc -l < a.losses)" = "$(wc -l < b.losses)" ] || fail "$1 has $(wc -l < a.losses) losses, $2 has $(wc -l < b.losses)"
  # All are finite: a comparison with a NaN would hold in some versions of awk.
  paste a.losses b.losses | awk -v tolerance="$3" '
    { difference = $1 - $2; if (difference < 0) difference = -difference; scale = $1 < 0 ? -$1 : $1 }
    !(difference <= tolerance * scale) { print "line " NR ": " $1 " and " $2; bad = 1 }
    END { exit bad || NR == 0 }' || fail "the losses of $1 and $2 differ by more than $3"
}

# Fails unless two logs have the same losses, digit by digit.
expect_same_losses() {
  losses "$1" > a.losses
  losses "$2" > b.losses
  cmp a.losses b.losses || fail "$3"
}

# Fails unless two logs have as many losses, and other ones.
expect_other_losses() {
  losses "$1" > a.losses
  losses "$2" > b.losses
  [ "$(wc -l < a.losses)" = "$(wc -l < b.losses)" ] || fail "$1 has $(wc -l < a.losses) losses, $2 has $(wc -l < b.losses)"
  ! cmp -s a.losses b.losses || fail "$3"
}

# Fails unless a number is less than another.
expect_less() {
  is_number "$1" || fail "$3: \"$1\" is no finite number"
  is_number "$2" || fail "$3: \"$2\" is no finite number"
  awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }' || fail "$3: $1 is not less than $2"
}

# Fails unless two folders of --save-parameters hold the same files, and each pair agrees within the given tolerance, relative to 1 + x, and is
# finite.
expect_same_parameters() {
  is_number "$3" || fail "the tolerance \"$3\" is no finite number"
  [ "$(ls "$1")" ] && [ "$(ls "$1")" = "$(ls "$2")" ] || fail "$1 holds $(ls "$1" | xargs), $2 holds $(ls "$2" | xargs)"
  local file
  for file in "$1"/*; do
    "$tools/compare_npy" "$file" "$2/${file##*/}" "$3" finite > /dev/null || fail "$file and $2/${file##*/} differ by more than $3"
  done
}

# Prints the zoo's model that a job of docs/jobs is for, with its options, as the job's first lines name it. model_of JOBNAME
model_of() {
  sed -n '1,/^[^#]/s/^# *ashlar-zoo \(.*\) -o .*/\1/p' "$jobs/$1.txtpb" | grep . || fail "docs/jobs/$1.txtpb does not say how its model is made"
}

# Prints how many ranks the plan of a program names. ranks_of PROGRAM
ranks_of() {
  sed -n 's/^mesh .*; \([0-9]*\) ranks\?$/\1/p' <("./$1" --plan)
}

# Fails unless the command fails, within 10 s, and says what is expected on stderr. expect_error TEXT COMMAND...
expect_error() {
  local text=$1 status=0
  shift
  timeout 10 "$@" > error.out 2> error.log || status=$?
  [ $status -ne 0 ] || fail "$* succeeded"
  [ $status -ne 124 ] || fail "$* hung"
  [ $status -ne 134 ] && [ $status -ne 139 ] || { cat error.log >&2; fail "$* crashed"; }
  grep -qF -- "$text" error.log || { cat error.log >&2; fail "$* did not say: $text"; }
}

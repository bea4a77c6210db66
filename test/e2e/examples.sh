# SPDX-License-Identifier: Apache-2.0
#
# The examples of examples/, in their small size, with generated data: each one learns, and writes the page of its plan.

. "$(dirname "$0")/common.sh"

examples=$(cd "$(dirname "$0")/../../examples" && pwd)
unset ASHLAR_DATA
ASHLAR_PREFIX=$(dirname "$tools")
export ASHLAR_PREFIX

# The last training loss of a log.
last_loss() {
  losses "$1" | tail -1
}

# The loss of the evaluation of a log.
eval_loss() {
  local text
  text=$(evaluation "$1") || exit 1
  text=${text#loss is }
  printf '%s\n' "${text%%, *}"
}

for script in "$examples"/*/run.sh; do
  name=$(basename "$(dirname "$script")")
  start=$SECONDS
  bash "$script" --small --out "$PWD/$name" > "$name.txt" 2>&1 || { cat "$name.txt" >&2; fail "the example $name"; }
  echo "$name: $((SECONDS - start)) s; $(tail -1 "$name.txt")"
  grep -q "^$name: loss is " <(tail -1 "$name.txt") || fail "the last line of $name is no result: $(tail -1 "$name.txt")"
  grep -q '</html>' "$name/plan.html" || fail "$name writes no page of its plan"
  grep -qF "[$name]($name/README.md)" "$examples/README.md" || fail "examples/README.md does not list $name"
  case $name in
    bert)
      # With what is known of the words it understands texts that it cannot from 64 of them.
      grep -qF "started from bert.safetensors: 23 variables" bert.txt || fail "the weights are not those of the file"
      expect_less 0.85 "$(accuracy bert/opinions.log)" "the accuracy of the fine-tuned BERT"
      expect_less "$(accuracy bert/from_scratch.log)" 0.85 "the accuracy without the file"
      ;;
    dlrm)
      expect_less 0.70 "$(accuracy dlrm/dlrm.log)" "the accuracy of $name" # always the more frequent answer: 0.5
      grep -q "8 all_to_all a step" dlrm.txt || fail "rows of tables do not move in all-to-alls"
      ;;
    gpt)
      expect_less "$(eval_loss gpt/gpt.log)" 1.8 "the loss of $name"
      [ "$(grep -c '^---$' gpt/texts.txt)" -eq 3 ] || fail "there are no three texts: $(cat gpt/texts.txt)"
      ! LC_ALL=C grep -q '[^[:print:]]' gpt/texts.txt || fail "the texts hold bytes that cannot be printed"
      grep -qw the gpt/texts.txt || fail "no text has the word that half of the sentences begin with: $(cat gpt/texts.txt)"
      ;;
    moe)
      expect_less "$(eval_loss moe/moe.log)" 2.2 "the loss of $name" # equally likely letters: 3.3
      grep -q "4 all_to_all a step" moe.txt || fail "tokens do not move to their experts in all-to-alls"
      ;;
    resnet) expect_less "$(last_loss resnet/resnet.log)" 1.2 "the loss of $name" ;; # chance: 2.3
    transformer_3d)
      expect_less "$(eval_loss transformer_3d/gpt.log)" 2.4 "the loss of $name"
      grep -q "^mesh  *dp=2, tp=2, 4 devices a stage; 8 ranks" transformer_3d.txt || fail "the plan has not three dimensions"
      ;;
    vit) expect_less 0.35 "$(accuracy vit/vit.log)" "the accuracy of $name" ;; # chance: 0.1
    *) fail "no bound is known for $name" ;;
  esac
done

expect_error "unknown option --large; usage: examples/gpt/run.sh [--small] [--out DIR]" bash "$examples/gpt/run.sh" --large
ASHLAR_PREFIX=/nowhere expect_error "there is no /nowhere/bin/ashlarc" bash "$examples/gpt/run.sh"

# SPDX-License-Identifier: Apache-2.0
#
# Paths mean themselves, whatever characters they have, wherever one is given: tools and executables treat none as a pattern, an option, a
# command or a list.

. "$(dirname "$0")/common.sh"

long=$(printf 'l%.0s' {1..250})
names=('%' '%%%%%%' '%s%n' 'a b' ' ' "quo'te" 'dou"ble' '-o' '--help' '@file' $'new\nline' $'tab\t' 'semi;colon' '$HOME' '`true`' '*' '?x' '[a]'
  '\' 'back\nslash' 'a=b' 'a,b' '{0}' '{}' '#' '~' 'ünïcödé' '日本' $'\xff\xfe' '.hidden' "$long")
rm -rf -- work && mkdir work
cd work
here=$PWD

# One round for each name: a folder of that name, and in it every file that a user can name, each of that name in a folder of its own.
for name in "${names[@]}"; do
  folder=$here/round/$name
  mkdir -p -- "$folder/tmp/$name"
  place() { mkdir -p -- "$folder/$1" && printf '%s/%s/%s' "$folder" "$1" "$name"; }
  model=$(place model; echo .) job=$(place job; echo .) program=$(place program; echo .) # the dot: $() takes newlines away
  model=${model%.} job=${job%.} program=${program%.}
  "$tools/ashlar-zoo" linear -o "$model" || fail "ashlar-zoo -o $model"
  cat "$jobs/linear.txtpb" > "$job"
  for emit in nn exe; do
    TMPDIR="$folder/tmp/$name" "$tools/ashlarc" "$model" --job "$job" --mesh dp=1 --emit $emit -o "$program" --dump-phases "$folder/dump/$name" \
      --report "$folder/report.$name.json" --save-strategy "$folder/strategy.$name" --annotate "$folder/model/annotated.$name" 2> error.log \
      || { [ "$name" = "$long" ] && grep -q 'file name too long' error.log; } || { cat error.log >&2; fail "--emit $emit of $program"; }
  done
  if [ "$name" = "$long" ]; then # 250 of the 255 characters that a name may have: alone it must do
    TMPDIR="$folder/tmp/$name" "$tools/ashlarc" "$model" --job "$job" -o "$program" || fail "a name of 250 characters"
  else
    for written in "$folder/report.$name.json" "$folder/strategy.$name" "$folder/model/annotated.$name" "$folder/dump/$name/00-import.mlir"; do
      [ -s "$written" ] || fail "$written was not written"
    done
  fi
  [ -z "$(ls -A "$folder/tmp/$name")" ] || fail "left in TMPDIR: $(ls -A "$folder/tmp/$name")"
  "$program" --steps 2 --log-every 1 --metrics "$folder/metrics.json" --log-dir "$folder/logs/$name" > log || fail "$program does not run"
  [ "$(wc -l < "$folder/metrics.json")" = 2 ] && [ -s "$folder/logs/$name/worker_0.log" ] || fail "the logs of $program"
  rm "$folder/metrics.json"
  "$program" --steps 2 --log-every 1 --metrics "$folder/logs/$name/$name" > log || fail "--metrics $folder/logs/$name/$name"
  [ "$(wc -l < "$folder/logs/$name/$name")" = 2 ] || fail "$folder/logs/$name/$name is not as it should be"
done

# Relative names, which have no slash to begin with.
cp round/%/model/% linear.onnx
echo 'global_batch: 8' > job.txtpb
for name in "${names[@]}"; do
  case $name in -*) continue ;; esac # may be an option
  mkdir -p relative && cd relative
  "$tools/ashlarc" ../linear.onnx --job ../job.txtpb -o "$name" || fail "-o $name"
  [ -x "./$name" ] || fail "./$name was not written"
  "./$name" --benchmark 1 > log || fail "./$name does not run"
  cd .. && rm -rf relative
done

# Folders in between that are spelled in a roundabout way, and outputs of a forward program.
mkdir -p a/b
"$tools/ashlarc" a/../linear.onnx --job a/b/../../job.txtpb -o a/./b/..//b/program
python3 -c 'from npy_writer import write_npy; write_npy("x.npy", "f", (8, 2), range(16))'
a/b/program --input input=x.npy --output output=expected.npy
for name in "${names[@]}"; do
  mkdir -p "npy/$name"
  cp x.npy "npy/$name/in"
  a/b/program --input "input=npy/$name/in" --output "output=npy/$name/$name" || fail "--output of $name"
  cmp expected.npy "npy/$name/$name" || fail "the output of $name is another"
done
[ -z "$(find . -name '.ashlar-*')" ] || fail "left behind: $(find . -name '.ashlar-*')"

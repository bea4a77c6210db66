# SPDX-License-Identifier: Apache-2.0
#
# Jobs for the model of attention_dropout_model.py: heads.txtpb splits samples over dp and heads over tp, keys.txtpb the keys over cp. Source it
# behind common.sh.

(
  sed 's/DATA_PARALLEL/SEMI_AUTO/' "$jobs/mlp.txtpb"
  echo 'rules { match: "input" layout: "[{dp}, {}]" } rules { match: "wl" layout: "[{tp}, {}]" }'
  for weight in wq wk wv; do echo "rules { match: \"$weight\" layout: \"[{}, {tp}]\" }"; done
) > heads.txtpb
keys='rules { match: "k_apart" layout: "[{}, {cp}, {}, {}]" } rules { match: "v_apart" layout: "[{}, {cp}, {}, {}]" }'
(sed 's/DATA_PARALLEL/SEMI_AUTO/' "$jobs/mlp.txtpb"; echo "$keys") > keys.txtpb

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Trains a recommendation model on generated clicks, on four ranks: columns of all tables on each, and samples of the dense layers on each.
. "$(dirname "$0")/../common.sh"

if $small; then
  tables=4 rows=100 samples=8192 epochs=4
else
  tables=8 rows=200 samples=131072 epochs=2
fi

show python3 "$example/data.py" clicks $tables $rows $samples
show ashlar-zoo dlrm --dense 8 --tables $tables --rows $rows -o dlrm.onnx
show ashlarc dlrm.onnx --job "$example/job.txtpb" -o dlrm --html plan.html
./dlrm --plan | grep "^collectives"
train dlrm 4 --data clicks --epochs $epochs
result dlrm

# SPDX-License-Identifier: Apache-2.0
#
# How the end-to-end scripts write jobs of pipelines. Source it behind common.sh.

momentum='momentum { momentum: 0.9 } learning_rate: 0.05'
clip="$momentum clip_global_norm: 0.05"
adamw='adamw { weight_decay: 0.1 } learning_rate: 0.001 clip_global_norm: 0.05' # divides by roots of small numbers: rounding grows with the steps

# pipeline_job BATCH EVAL_SAMPLES OPTIMIZER STAGES [LINE]: an epoch of ten batches on two devices; STAGES is the line that cuts the model or the
# batch.
pipeline_job() {
  cat << JOB
mode: SEMI_AUTO
mesh { axes { name: "dp" size: 2 } }
rules { match: "input" layout: "[{dp}, {}]" }
global_batch: $1
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { $3 }
dataset {
  digits { train_samples: $((10 * $1)) eval_samples: $2 }
  features { column: "image" tensor: "input" transforms { rescale { scale: 0.00392156862745098 } } }
  features { column: "label" tensor: "labels" }
}
epochs: 1
$4
${5:-}
JOB
}

// SPDX-License-Identifier: Apache-2.0
//
// A job of generation from one of training.

#include "compiler/job/job.h"

#include "llvm/ADT/STLExtras.h"

namespace ashlar::job {

void takeGeneration(Job &job) {
  job.mutable_generate();
  job.clear_loss();
  job.clear_optimizer();
  job.clear_dataset();
  job.clear_global_batch();
  job.clear_accumulate();
  job.clear_gradient_sync();
  job.clear_gradient_reduce_precision();
  job.clear_sequence_parallel();
  job.clear_deterministic();
  job.clear_epochs();
  job.clear_log_every();
  job.clear_optimizer_parallel();
  job.clear_pipeline();
  job.clear_checkpoint();
  job.clear_recompute();
  job.clear_frozen();
  job.clear_trained();
  job.clear_loss_scale();
  job.clear_batch_norm();
  job.clear_batch_norm_variance();
  job.clear_straight_through();
  job.clear_on_nonfinite();
  google::protobuf::RepeatedPtrField<Rule> layouts;
  for (Rule rule : job.rules()) {
    rule.clear_comm_fusion();
    rule.clear_optimizer_parallel();
    rule.clear_pipeline_stage();
    rule.clear_recompute();
    rule.clear_recompute_comm();
    rule.clear_recompute_param_gather();
    rule.clear_weight_decay();
    if (rule.has_layout() || rule.in_size() + rule.out_size() > 0) {
      layouts.Add(std::move(rule));
    }
  }
  job.mutable_rules()->Swap(&layouts);
}

bool generatesText(const Job &job) {
  return job.has_generate() && !job.has_loss();
}

} // namespace ashlar::job

// SPDX-License-Identifier: Apache-2.0
//
// What rules say, as far as the job alone tells.

#include "compiler/job/check_rules.h"

#include "compiler/job/job.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace ashlar::job {

namespace {

bool givesLayouts(const Rule &rule) {
  return rule.has_layout() || rule.in_size() + rule.out_size() > 0;
}

bool saysRecompute(const Rule &rule) {
  return rule.has_recompute() || rule.has_recompute_comm() || rule.has_recompute_param_gather();
}

// The settings of parameters and ops, which every mode takes.
bool hasSettings(const Rule &rule) {
  return rule.has_weight_decay() || rule.has_comm_fusion() || rule.has_optimizer_parallel() || rule.has_pipeline_stage() ||
         saysRecompute(rule);
}

// What a rule says of layouts, with regard to the mode. `what` names the rule.
Fault checkLayouts(const Rule &rule, Mode mode, const std::string &what) {
  bool hasCounts = rule.in_size() + rule.out_size() > 0;
  if (mode == HYBRID && hasCounts) {
    return what + " counts slices, but in mode HYBRID nothing chooses their axes; give the tensors a layout: \"[{dp}, {}]\"";
  }
  if (mode != SEMI_AUTO && mode != AUTO && mode != HYBRID) {
    return llvm::formatv("{0} gives layouts, which mode {1} does not take from rules; set mode: SEMI_AUTO", what, Mode_Name(mode));
  }
  return rule.has_layout() && hasCounts ? what + " has both a layout and slice counts; write two rules" : "";
}

Fault checkRule(const Rule &rule, const Job &job) {
  std::string what = rule.origin().empty() ? "a rule" : "the rule at " + rule.origin();
  if (rule.match().empty()) {
    return what + " has no match; name tensors or ops by a glob such as \"layer1.*.weight\"";
  }
  what += " (\"" + rule.match() + "\")";
  if (!givesLayouts(rule) && !hasSettings(rule)) {
    return what + " has no content; give it layout: \"[{dp}, {}]\", in and out, a setting of parameters such as weight_decay: 0, "
                  "pipeline_stage: 1, or recompute: true";
  }
  if (rule.has_weight_decay() && !job.has_optimizer()) {
    return what + " sets weight_decay, which is the optimizer's, but the job has none; leave it out";
  }
  if (rule.has_optimizer_parallel() && !job.has_optimizer_parallel()) {
    return what + " chooses parameters for optimizer_parallel, and the job has none; add optimizer_parallel { level: 1 }";
  }
  if (rule.has_comm_fusion() && job.mesh().axes_size() == 0) {
    return what + " sets comm_fusion, which puts collectives together, and without a mesh there are none; add a mesh or leave it out";
  }
  if (saysRecompute(rule) && !job.has_loss()) {
    return what + " sets recompute, which is for training, and the job has no loss; leave it out";
  }
  if (rule.has_recompute_param_gather() && job.optimizer_parallel().level() != 3) {
    return llvm::formatv("{0} sets recompute_param_gather, for parameters that optimizer_parallel stores sharded at level 3, and the "
                         "job has {1}; leave it out",
                         what, job.has_optimizer_parallel() ? "level " + std::to_string(job.optimizer_parallel().level()) : "none");
  }
  return givesLayouts(rule) ? checkLayouts(rule, effectiveMode(job), what) : "";
}

} // namespace

Fault checkStrategy(const Job &job) {
  if (!job.has_strategy()) {
    return {};
  }
  if (effectiveMode(job) == HYBRID) {
    return "the strategy gives layouts, but in mode HYBRID the model's collectives do; leave it out";
  }
  if (job.mesh().axes_size() == 0) {
    return "the strategy gives layouts on a mesh, and the job has none; add the mesh it was saved with";
  }
  return job.deterministic().always()
             ? "the strategy gives layouts to the default variant, which deterministic.always leaves out; leave out one of the two"
             : "";
}

Fault checkRules(const Job &job) {
  if (job.recompute() == Recompute::AUTO && !job.has_loss()) {
    return "recompute: AUTO is for training, and the job has no loss; leave it out";
  }
  for (const Rule &rule : job.rules()) {
    if (Fault fault = checkRule(rule, job); !fault.empty()) {
      return fault;
    }
  }
  bool hasLayouts = llvm::any_of(job.rules(), givesLayouts) || job.has_strategy() || job.has_device_configuration();
  if (effectiveMode(job) == SEMI_AUTO && !hasLayouts) {
    return "mode SEMI_AUTO needs rules to infer layouts from; add rules { match: \"fc1.weight\" layout: \"[{tp}, {}]\" }";
  }
  if (job.has_device_configuration() && effectiveMode(job) != SEMI_AUTO) {
    return llvm::formatv("device_configuration \"{0}\" gives layouts, which mode {1} does not take; set mode: SEMI_AUTO",
                         job.device_configuration(), Mode_Name(effectiveMode(job)));
  }
  return {};
}

} // namespace ashlar::job

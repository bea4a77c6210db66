// SPDX-License-Identifier: Apache-2.0
//
// What rules say, as far as the job alone tells.

#include "compiler/job/check_rules.h"

#include "compiler/job/job.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace ashlar::job {

namespace {

Fault checkRule(const Rule &rule, const Job &job) {
  std::string what = rule.origin().empty() ? "a rule" : "the rule at " + rule.origin();
  if (rule.match().empty()) {
    return what + " has no match; name tensors or ops by a glob such as \"layer1.*.weight\"";
  }
  what += " (\"" + rule.match() + "\")";
  bool hasCounts = rule.in_size() + rule.out_size() > 0;
  if (effectiveMode(job) == HYBRID && hasCounts) {
    return what + " counts slices, but in mode HYBRID nothing chooses their axes; give the tensors a layout: \"[{dp}, {}]\"";
  }
  if (effectiveMode(job) != SEMI_AUTO && effectiveMode(job) != HYBRID) {
    return llvm::formatv("{0} gives layouts, which mode {1} does not take from rules; set mode: SEMI_AUTO", what,
                         Mode_Name(effectiveMode(job)));
  }
  if (!rule.has_layout() && !hasCounts) {
    return what + " says nothing; give it layout: \"[{dp}, {}]\", or in and out";
  }
  if (rule.has_layout() && hasCounts) {
    return what + " has both a layout and slice counts; write two rules";
  }
  return {};
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
  bool hasLayouts = job.rules_size() > 0 || job.has_strategy() || job.has_device_configuration();
  if (effectiveMode(job) == SEMI_AUTO && !hasLayouts) {
    return "mode SEMI_AUTO needs rules to infer layouts from; add rules { match: \"fc1.weight\" layout: \"[{tp}, {}]\" }";
  }
  if (job.has_device_configuration() && effectiveMode(job) != SEMI_AUTO) {
    return llvm::formatv("device_configuration \"{0}\" gives layouts, which mode {1} does not take; set mode: SEMI_AUTO",
                         job.device_configuration(), Mode_Name(effectiveMode(job)));
  }
  for (const Rule &rule : job.rules()) {
    if (Fault fault = checkRule(rule, job); !fault.empty()) {
      return fault;
    }
  }
  return {};
}

} // namespace ashlar::job

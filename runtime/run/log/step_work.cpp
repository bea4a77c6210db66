// SPDX-License-Identifier: Apache-2.0
//
// See step_work.h. The image has the programs of all stages, so each rank finds the work of all.

#include "runtime/run/log/step_work.h"

#include "runtime/base/stages.h"
#include "runtime/comm/mesh.h"
#include "runtime/execute/operations.h"
#include "runtime/execute/order.h"
#include "runtime/execute/repeats.h"

#include <algorithm>
#include <vector>

namespace ashlar::rt {
namespace {

// Operations of f32, and of bf16 and f16.
struct Operations {
  double wide = 0, narrow = 0;
};

// A run of a program, on `devices` devices.
Operations sumOperations(const ashlar_rt_program &program, double devices) {
  Operations sum;
  const std::vector<uint64_t> times = timesOf(program);
  for (uint32_t i = 0; i < program.num_instrs; ++i) {
    const ashlar_rt_instr &instr = program.instrs[i];
    const double all = static_cast<double>(times[i]) * (instr.owner == 0 ? devices : 1) * operationsOf(instr);
    (isNarrow(instr) ? sum.narrow : sum.wide) += all;
  }
  return sum;
}

// Tokens of a sample: its class labels, where they are a matrix; 0 otherwise.
double tokensOfSample(const ashlar_rt_training &training, const Stages &stages) {
  for (uint32_t i = 0; i < training.dataset.num_features; ++i) {
    const ashlar_rt_feature &feature = training.dataset.features[i];
    const ashlar_rt_tensor *labels = feature.classes > 0 ? stages.find(feature.tensor) : nullptr;
    if (labels != nullptr && labels->rank == 2) {
      return static_cast<double>(labels->global_shape[1]);
    }
  }
  return 0;
}

} // namespace

Status findStepWork(const ashlar_rt_training &training, const ashlar_rt_variant &variant, int threads, StepWork &work) {
  const uint64_t batches = std::max<uint64_t>(training.accumulate, 1);
  const Stages stages(variant);
  Operations sum;
  double ranks = 0;
  for (const ashlar_rt_variant &stage : stages) {
    const Mesh mesh(stage);
    const double devices = static_cast<double>(mesh.processes()) * mesh.devicesPerProcess();
    ranks += mesh.processes();
    std::vector<Operations> programs;
    for (uint32_t i = 0; i < stage.num_programs; ++i) {
      programs.push_back(sumOperations(stage.programs[i], devices));
    }
    StepOrder order;
    ASHLAR_RETURN_IF_ERROR(order.set(stage, batches));
    for (ashlar_rt_run run; order.next(run);) {
      sum.wide += programs[run.program].wide;
      sum.narrow += programs[run.program].narrow;
    }
  }
  work.samples = static_cast<double>(training.global_batch * batches);
  work.tokens = work.samples * tokensOfSample(training, stages);
  work.operations = sum.wide + sum.narrow;
  auto secondsOf = [](double operations, uint64_t perUs) { return operations == 0 ? 0 : operations / static_cast<double>(perUs) * 1e-6; };
  const bool isKnown = (sum.wide == 0 || training.peak_flops_per_us != 0) && (sum.narrow == 0 || training.narrow_peak_flops_per_us != 0);
  if (isKnown) {
    const double all = secondsOf(sum.wide, training.peak_flops_per_us) + secondsOf(sum.narrow, training.narrow_peak_flops_per_us);
    work.peakSeconds = all / (ranks * threads);
  }
  return Status();
}

} // namespace ashlar::rt

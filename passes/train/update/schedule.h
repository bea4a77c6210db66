// SPDX-License-Identifier: Apache-2.0
//
// Learning rates that follow the number of the step.

#ifndef ASHLAR_PASSES_TRAIN_UPDATE_SCHEDULE_H
#define ASHLAR_PASSES_TRAIN_UPDATE_SCHEDULE_H

#include "passes/train/passes.h"
#include "passes/train/update/step_numbers.h"

namespace ashlar::train {

// The options of ashlar-optimizer about the learning rate; docs/semantics.md has the formulas.
struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double learningRate = 0;
  int64_t warmupSteps = 0;
  int64_t stepSize = 0;               // of kind Step
  double gamma = 1;                   // of kind Step
  llvm::ArrayRef<int64_t> boundaries; // of kind Piecewise
  llvm::ArrayRef<double> values;      // of kind Piecewise
  int64_t decaySteps = 0;             // of kinds Cosine and Polynomial
  double endLearningRate = 0;         // of kinds Cosine and Polynomial
  double power = 1;                   // of kind Polynomial

  // Whether all steps have the same learning rate.
  bool isConstant() const { return kind == ScheduleKind::Constant && warmupSteps == 0; }
};

// Returns the error of a schedule; "" for none.
std::string findFault(const Schedule &schedule);

// Returns the learning rate of a step; the first one is number 0. Assumes a schedule without a fault.
Number learningRateAt(NumberBuilder &numbers, const Schedule &schedule, Number step);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_UPDATE_SCHEDULE_H

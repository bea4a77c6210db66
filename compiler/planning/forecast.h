// SPDX-License-Identifier: Apache-2.0
//
// The cost of a step on a mesh: time and memory of a device, from the program that lowering makes. No code is generated, so that many
// meshes and many layouts can be compared.

#ifndef ASHLAR_COMPILER_PLANNING_FORECAST_H
#define ASHLAR_COMPILER_PLANNING_FORECAST_H

#include "compiler/job/job.pb.h"
#include "compiler/pipelines/pipelines.h"
#include "passes/lower/memory/memory_use.h"

#include <optional>
#include <vector>

namespace ashlar::planning {

// What a stage of a pipeline takes of a step and of a device's memory.
struct StageForecast {
  int64_t forwardPs = 0, backwardPs = 0, weightsPs = 0; // programs of a micro-batch
  int64_t oncePs = 0;                                   // all others of a step
  int64_t receivePs = 0;                                // messages of a micro-batch
  int64_t onceReceivePs = 0;                            // all others of a step
  int64_t slotBytes = 0;                                // of a micro-batch in flight
  int64_t messageBytes = 0;                             // the part of it that is sent or received
  uint64_t fixedBytes = 0;                              // besides the slots
};

struct Forecast {
  int64_t stepPs = 0; // of a step: all its micro-batches, and the update; of a model alone: of a run
  // Of the device that has most to do in a step, with a pipeline one of the busiest stage.
  int64_t computePs = 0;
  int64_t sendPs = 0;                // of its collectives
  int64_t exposedPs = 0;             // the part that computation does not hide
  int64_t bytesSent = 0;             // by collectives, and to other stages; of the stage that sends most
  lower::MemoryUse memory;           // of a device, with a pipeline of the stage that takes most
  uint64_t leastBytes = 0;           // that a device of any stage must have: without what is spare
  std::optional<double> bubble;      // of a pipeline: the share of the step in which a stage waits, on average
  int64_t recomputeMoves = 0;        // that there are to choose from (docs/recompute.md)
  bool isStopped = false;            // the clock ended its search for layouts: another machine may find other ones
  std::vector<StageForecast> stages; // of a pipeline
};

// Lowers a module of programs whose values have layouts (inferLayouts), as a compilation does, up to the tables, and reads the numbers
// there, as --plan and --report do for the executable. Fails, with an error, where a pass does.
mlir::FailureOr<Forecast> forecast(mlir::OwningOpRef<mlir::ModuleOp> module, const pipelines::Variant &variant, const job::Job &job);

// Lets the search of a variant, where it has one, compare strategies by their forecasts, and gives it a memory limit, bytes of a device, 0:
// any number. With `recompute: AUTO` it has none: rematerialization makes the program fit. `job` outlives the variant.
void searchByForecast(pipelines::Variant &variant, const job::Job &job, int64_t memoryLimit);

// Returns whether the clock ended the search for the layouts of a module, if there was one.
bool wasSearchStopped(mlir::ModuleOp module);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_FORECAST_H

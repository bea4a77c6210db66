// SPDX-License-Identifier: Apache-2.0
//
// ashlarc plan: forecasts of a job on other meshes. Nothing is compiled.

#ifndef ASHLAR_COMPILER_DRIVER_PLAN_H
#define ASHLAR_COMPILER_DRIVER_PLAN_H

#include "compiler/driver/compile.h"

#include <cstdint>
#include <vector>

namespace ashlar::driver {

// The command line of ashlarc plan.
struct PlanOptions {
  command::Options common;         // the model, the job, the target, the memory, overlap, a strategy
  std::vector<std::string> meshes; // "dp=4,tp=2"; none: the job's
  bool sweeps = false;             // all sizes that the axes of the job's mesh can have
  int64_t devices = 0;             // whose product they are; 0: as many as the job's mesh has
  std::string json;                // file of the table as JSON; empty: none
  std::string html;                // file of the table as a page; empty: none
};

// Prints a table with a line a mesh: meshes that fit, the fastest first, then meshes that need too much memory, then impossible ones, with
// the reason. Errors as in compile(). Returns the exit status: 1 where no mesh can be planned.
int plan(const PlanOptions &options);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_PLAN_H

// SPDX-License-Identifier: Apache-2.0
//
// --trace: a simulated step as a trace, in the format of --trace of executables (docs/trace.md).

#ifndef ASHLAR_TOOLS_ASHLAR_SIM_SIMULATED_TRACE_H
#define ASHLAR_TOOLS_ASHLAR_SIM_SIMULATED_TRACE_H

#include "runtime/base/output_file.h"
#include "runtime/simulate/simulator.h"

#include <cstdint>
#include <vector>

namespace ashlar::sim {

// Writes the events of some ranks, whose classes were recorded, and commits the file.
rt::Status writeSimulatedTrace(const ashlar_rt_image &image, const rt::StepTables &tables, const rt::Simulation &simulation,
                               const std::vector<uint32_t> &ranks, rt::OutputFile &file);

} // namespace ashlar::sim

#endif // ASHLAR_TOOLS_ASHLAR_SIM_SIMULATED_TRACE_H

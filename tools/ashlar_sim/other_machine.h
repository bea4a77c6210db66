// SPDX-License-Identifier: Apache-2.0
//
// --machine: the links of an executable's mesh on another machine, by the compiler's cost model.

#ifndef ASHLAR_TOOLS_ASHLAR_SIM_OTHER_MACHINE_H
#define ASHLAR_TOOLS_ASHLAR_SIM_OTHER_MACHINE_H

#include "runtime/simulate/machine.h"

#include <string>
#include <vector>

namespace ashlar::sim {

// Replaces a machine by that of a file. Fields that it lacks default to the target's, as for ashlarc. Adds a note where something of it has
// no effect. Fails where groups or messages go between hosts, and the file has no link for that.
rt::Status readOtherMachine(const std::string &path, const ashlar_rt_image &image, const rt::Stages &stages, rt::SimulatedMachine &machine,
                            std::vector<std::string> &notes);

} // namespace ashlar::sim

#endif // ASHLAR_TOOLS_ASHLAR_SIM_OTHER_MACHINE_H

// SPDX-License-Identifier: Apache-2.0
//
// Options that all ranks must have alike: those that decide how often which programs run, and with which random numbers. A rank that runs
// one step more than the others waits for them for ever; one with another seed trains another model.

#ifndef ASHLAR_RUNTIME_LAUNCH_SAME_OPTIONS_H
#define ASHLAR_RUNTIME_LAUNCH_SAME_OPTIONS_H

#include "runtime/comm/communicator.h"
#include "runtime/launch/options.h"

namespace ashlar::rt {

// Compares the options of this rank with those of rank 0. Every process calls it.
Status checkSameOptions(const Options &options, Communicator &communicator);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_LAUNCH_SAME_OPTIONS_H

// SPDX-License-Identifier: Apache-2.0
//
// Options that all ranks must share: options that decide how often which programs run, and with which random numbers, and the data. A rank
// that runs one step more than the others waits for them for ever; one with another seed, or other samples, trains another model. The
// stages of a pipeline exchange the loss of a line, so there --log-every counts, too. --deterministic is compared earlier, with the
// program. Options with local effects may differ: --data, --input, the place of --init-from (the contents count), --log-every, --log-dir,
// --metrics, --no-graph, --profile, --tensorboard, --threads; --help and --plan end a rank before it meets the others.

#ifndef ASHLAR_RUNTIME_RUN_SAME_OPTIONS_H
#define ASHLAR_RUNTIME_RUN_SAME_OPTIONS_H

#include "runtime/comm/communicator.h"
#include "runtime/data/data_facts.h"
#include "runtime/run/options.h"

namespace ashlar::rt {

// Compares the options of this rank with rank 0's. Every process calls it.
Status checkSameOptions(const Options &options, Communicator &communicator);

// Compares the data of this rank with rank 0's. Every process calls it, with as many facts.
Status checkSameData(const std::vector<DataFacts> &facts, Communicator &communicator);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_SAME_OPTIONS_H

// SPDX-License-Identifier: Apache-2.0
//
// Where the batches of a run come from.

#ifndef ASHLAR_RUNTIME_RUN_SOURCE_H
#define ASHLAR_RUNTIME_RUN_SOURCE_H

#include "runtime/data/pipeline.h"
#include "runtime/run/session.h"

#include <memory>

namespace ashlar::rt {

// A pipeline together with the feed that brings its batches to the devices.
struct Source {
  // Opens a split of the data set for the inputs of this rank.
  Status create(Session &session, Split split) {
    PipelineOptions options;
    options.training = session.image->training;
    options.variant = session.variant;
    options.firstDevice = static_cast<uint32_t>(session.communicator->firstDevice());
    options.numDevices = static_cast<uint32_t>(session.communicator->mesh().devicesPerProcess());
    options.split = split;
    options.directory = session.options->dataDirectory;
    options.seed = session.options->seed;
    options.threads = session.dataThreads;
    ASHLAR_RETURN_IF_ERROR(Pipeline::create(options, pipeline));
    ASHLAR_RETURN_IF_ERROR(session.executor->createFeed(pipeline, feed));
    feed->repeats = split == Split::kTrain && session.options->repeatsBatch;
    return Status();
  }

  Pipeline pipeline;
  std::unique_ptr<Feed> feed;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_SOURCE_H

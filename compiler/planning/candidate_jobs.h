// SPDX-License-Identifier: Apache-2.0
//
// The complete jobs that a search for the mesh compares: of one that leaves mesh, stages and micro-batches open.

#ifndef ASHLAR_COMPILER_PLANNING_CANDIDATE_JOBS_H
#define ASHLAR_COMPILER_PLANNING_CANDIDATE_JOBS_H

#include "compiler/job/job.pb.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace ashlar::planning {

// Returns every list of so many sizes of at least 1 whose product is `devices`; larger first sizes first.
//   8 over 2 axes  ->  {8, 1}, {4, 2}, {2, 4}, {1, 8}
std::vector<std::vector<int64_t>> factorise(int64_t devices, size_t axes);

// Returns the first candidates for a job with mesh.devices: each way to share the devices among the axes, and each number of stages, with
// enough micro-batches to keep a pipeline busy. The names are the job's own axes; without any they are "outer" and "inner", along which
// devices are neighbours. The job's stages, micro-batches and recomputation stay.
//   8 devices, a training job  ->  outer=8,inner=1; 4,2; 2,4; 2 stages of 4,1; 2,2; 4 stages of 2,1; 8 stages of 1,1
std::vector<job::Job> listMeshJobs(const job::Job &job);

// Returns a job with a step in so many micro-batches: of its pipeline, or one after the other.
job::Job withMicroBatches(const job::Job &job, int64_t count);

// Returns the number of micro-batches of one sample for all devices along the last axis of the mesh, which tensors may be sharded over; the
// job's own number where the samples cannot be shared evenly so, or are less than one a stage.
//   1536 samples on outer=16,inner=8  ->  96
int64_t mostMicroBatches(const job::Job &job);

// Returns a job of a pipeline in ONE_F_ONE_B, and INTERLEAVED in each number of chunks that shares so many layers evenly, and in two, where
// its stages share its micro-batches evenly; of one in ZERO_BUBBLE itself.
std::vector<job::Job> listSchedules(const job::Job &job, int64_t layers);

// Returns a job without the schedule and the chunks of its pipeline, unless that is ZERO_BUBBLE, which has programs of its own: what jobs
// of equal programs have in common, except for chunks.
job::Job withoutOrder(const job::Job &job);

// Returns a job of a pipeline in ZERO_BUBBLE.
job::Job withZeroBubble(const job::Job &job);

// Returns a training job with each level of optimizer parallelism, the least first; none for another job. With one micro-batch level 2,
// which shards the sums of gradients, is level 1.
std::vector<job::Job> listLevels(const job::Job &job);

// Returns a job with twice as many devices along the last axis of its mesh, taken from the axis before; nothing where that is odd.
//   outer=16,inner=8  ->  outer=8,inner=16
std::optional<job::Job> withLargerLastAxis(const job::Job &job);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_CANDIDATE_JOBS_H

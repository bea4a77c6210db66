// SPDX-License-Identifier: Apache-2.0
//
// See candidate_jobs.h.

#include "compiler/planning/candidate_jobs.h"

#include "compiler/job/job.h"
#include "compiler/planning/sort_by.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace ashlar::planning {
namespace {

constexpr int64_t kMostStages = 64;

// Returns the divisors of a number, in their order.
std::vector<int64_t> divisorsOf(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t each = 1; each <= number; ++each) {
    if (number % each == 0) {
      divisors.push_back(each);
    }
  }
  return divisors;
}

// Returns the numbers of stages that a job may have; 1: no pipeline.
std::vector<int64_t> listStages(const job::Job &job) {
  const int64_t devices = job.mesh().devices();
  if (job.has_pipeline()) {
    const int64_t stages = job.pipeline().stages();
    return devices % stages == 0 ? std::vector<int64_t>{stages} : std::vector<int64_t>();
  }
  if (!job.has_loss() || job.has_accumulate()) {
    return {1};
  }
  std::vector<int64_t> stages = divisorsOf(devices);
  llvm::erase_if(stages, [](int64_t each) { return each > kMostStages; });
  return stages;
}

// Returns how many micro-batches keep so many stages busy for most of a step: four a stage, or what the batch can be split in; nothing
// where that is less than one a stage.
std::optional<int64_t> microBatchesFor(const job::Job &job, int64_t stages) {
  for (int64_t each : {4, 2, 1}) {
    if (job.global_batch() % (each * stages) == 0) {
      return each * stages;
    }
  }
  return std::nullopt;
}

job::Job withMesh(const job::Job &job, int64_t stages, llvm::ArrayRef<int64_t> sizes) {
  job::Job made = job;
  job::Mesh &mesh = *made.mutable_mesh();
  mesh.clear_devices();
  if (mesh.axes().empty()) {
    mesh.add_axes()->set_name("outer");
    mesh.add_axes()->set_name("inner");
  }
  for (auto [axis, size] : llvm::zip_equal(*mesh.mutable_axes(), sizes)) {
    axis.set_size(static_cast<int32_t>(size));
  }
  if (stages > 1 && !job.has_pipeline()) {
    made.mutable_pipeline()->set_stages(static_cast<int32_t>(stages));
    made.mutable_pipeline()->set_micro_batches(static_cast<int32_t>(*microBatchesFor(job, stages)));
    job::takeExactLoss(made);
  }
  return made;
}

} // namespace

std::vector<std::vector<int64_t>> factorise(int64_t devices, size_t axes) {
  if (axes == 0) {
    return devices == 1 ? std::vector<std::vector<int64_t>>{{}} : std::vector<std::vector<int64_t>>();
  }
  std::vector<std::vector<int64_t>> lists;
  for (int64_t size = devices; size >= 1; --size) {
    if (devices % size != 0 || (axes == 1 && size != devices)) {
      continue;
    }
    for (std::vector<int64_t> &rest : factorise(devices / size, axes - 1)) {
      rest.insert(rest.begin(), size);
      lists.push_back(std::move(rest));
    }
  }
  return lists;
}

std::vector<job::Job> listMeshJobs(const job::Job &job) {
  struct Shape {
    int64_t stages;
    std::vector<int64_t> sizes;
  };
  std::vector<Shape> shapes;
  const size_t axes = job.mesh().axes().empty() ? 2 : job.mesh().axes_size();
  for (int64_t stages : listStages(job)) {
    if (stages > 1 && !job.has_pipeline() && !microBatchesFor(job, stages)) {
      continue;
    }
    for (std::vector<int64_t> &sizes : factorise(job.mesh().devices() / stages, axes)) {
      // An axis of one device stands behind the others: ahead of them it would be the same mesh again.
      if (std::is_partitioned(sizes.begin(), sizes.end(), [](int64_t size) { return size > 1; })) {
        shapes.push_back({stages, std::move(sizes)});
      }
    }
  }
  // Even axes and few stages first, in case time is short: layouts for 8 x 8 devices include those for 64. Of two meshes that are as even
  // the one with fewer neighbours, which more often share a host.
  auto keyOf = [](const Shape &shape) {
    return std::pair(*llvm::max_element(shape.sizes) * shape.stages, !std::is_sorted(shape.sizes.rbegin(), shape.sizes.rend()));
  };
  sortBy(shapes, keyOf);
  std::vector<job::Job> jobs;
  llvm::for_each(shapes, [&](const Shape &shape) { jobs.push_back(withMesh(job, shape.stages, shape.sizes)); });
  return jobs;
}

job::Job withMicroBatches(const job::Job &job, int64_t count) {
  job::Job made = job;
  if (job.has_pipeline()) {
    made.mutable_pipeline()->set_micro_batches(static_cast<int32_t>(count));
  } else if (count != job.accumulate()) {
    made.set_accumulate(count);
    job::takeExactLoss(made);
  }
  return made;
}

int64_t mostMicroBatches(const job::Job &job) {
  int64_t shares = 1;
  for (const job::Mesh::Axis &axis : llvm::drop_end(job.mesh().axes())) {
    shares *= axis.size();
  }
  const int64_t most = job.global_batch() / shares, stages = job.has_pipeline() ? job.pipeline().stages() : 1;
  return job.global_batch() % shares == 0 && most >= stages ? most : job::microBatches(job);
}

std::vector<job::Job> listSchedules(const job::Job &job, int64_t layers) {
  const job::Job plain = withoutOrder(job);
  std::vector<job::Job> jobs = {plain};
  const int32_t stages = job.pipeline().stages();
  const bool isInterleaved = job.pipeline().schedule() != job::Pipeline::ZERO_BUBBLE && job.pipeline().micro_batches() % stages == 0;
  for (int32_t chunks = 2; isInterleaved && chunks * stages <= layers; ++chunks) {
    if (chunks == 2 || layers % (chunks * stages) == 0) {
      job::Pipeline &pipeline = *jobs.emplace_back(plain).mutable_pipeline();
      pipeline.set_schedule(job::Pipeline::INTERLEAVED);
      pipeline.set_chunks(chunks);
    }
  }
  return jobs;
}

job::Job withoutOrder(const job::Job &job) {
  job::Job made = job;
  if (job.has_pipeline()) {
    job::Pipeline &pipeline = *made.mutable_pipeline();
    pipeline.clear_chunks();
    pipeline.clear_schedule();
    if (job.pipeline().schedule() == job::Pipeline::ZERO_BUBBLE) {
      pipeline.set_schedule(job::Pipeline::ZERO_BUBBLE);
    }
  }
  return made;
}

job::Job withZeroBubble(const job::Job &job) {
  job::Job made = withoutOrder(job);
  made.mutable_pipeline()->set_schedule(job::Pipeline::ZERO_BUBBLE);
  return made;
}

std::vector<job::Job> listLevels(const job::Job &job) {
  constexpr int32_t kGradientLevel = 2, kMostLevel = 3;
  std::vector<job::Job> jobs;
  for (int32_t level = 1; level <= kMostLevel && job.has_loss(); ++level) {
    if (level != kGradientLevel || job::microBatches(job) > 1) {
      jobs.emplace_back(job).mutable_optimizer_parallel()->set_level(level);
    }
  }
  return jobs;
}

std::optional<job::Job> withLargerLastAxis(const job::Job &job) {
  if (job.mesh().axes_size() < 2) {
    return std::nullopt;
  }
  job::Job made = job;
  job::Mesh::Axis &last = *made.mutable_mesh()->mutable_axes(job.mesh().axes_size() - 1);
  job::Mesh::Axis &before = *made.mutable_mesh()->mutable_axes(job.mesh().axes_size() - 2);
  if (before.size() % 2 != 0) {
    return std::nullopt;
  }
  before.set_size(before.size() / 2);
  last.set_size(2 * last.size());
  return made;
}

} // namespace ashlar::planning

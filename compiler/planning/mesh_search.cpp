// SPDX-License-Identifier: Apache-2.0
//
// See mesh_search.h.

#include "compiler/planning/mesh_search.h"

#include "compiler/command/diagnostics.h"
#include "compiler/report/units.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "passes/search/solver/effort.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mlir;

namespace ashlar::planning {
namespace {

constexpr int64_t kMostStages = 64;
constexpr size_t kRefined = 3; // jobs that others are made of

// Sorts by a key; equal ones stay in their order.
template <typename T, typename KeyOf> void sortBy(std::vector<T> &items, KeyOf keyOf) {
  std::multimap<decltype(keyOf(items.front())), T> sorted;
  for (T &item : items) {
    sorted.emplace(keyOf(item), std::move(item));
  }
  items.clear();
  for (auto &[key, item] : sorted) {
    items.push_back(std::move(item));
  }
}

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

job::Job withMesh(const job::Job &job, int64_t stages, ArrayRef<int64_t> sizes) {
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

class MeshSearch {
public:
  MeshSearch(const command::Options &options, const command::Input &input, JobForecaster &forecaster, MLIRContext &context)
      : options(options), input(input), forecaster(forecaster), context(context),
        effort(search::Effort::unitsOf(options.searchEffort), options.searchSeconds) {}

  FoundMeshes run() {
    std::vector<job::Job> jobs = listMeshJobs(input.job);
    mayDivide = input.job.has_loss() && !input.job.has_accumulate() && !input.job.has_pipeline();
    if (std::string reason = mayDivide ? whyWhole(jobs.front()) : ""; !reason.empty()) {
      emitRemark(UnknownLoc::get(&context)) << "stages and micro-batches are left out of the search: " << reason
                                            << "; to have them, give the job a pipeline or accumulate";
      llvm::erase_if(jobs, [](const job::Job &job) { return job::microBatches(job) > 1; });
      mayDivide = false;
    }
    for (job::Job &job : jobs) {
      tryJob(std::move(job));
    }
    sort();
    for (size_t place = 0; place < std::min(kRefined, found.candidates.size()); ++place) {
      refine(found.candidates[place]);
    }
    sort();
    found.isStopped = effort.isStopped() || llvm::any_of(found.candidates, [](const Candidate &each) {
                        return each.row.forecast && each.row.forecast->isStopped;
                      });
    return std::move(found);
  }

private:
  bool fits(const Candidate &candidate) const {
    return input.memoryLimit == 0 || candidate.row.forecast->leastBytes <= static_cast<uint64_t>(input.memoryLimit);
  }

  // Returns why a step in micro-batches is not the step on the whole batch; "" where it is, or where the job has other faults.
  std::string whyWhole(job::Job job) {
    job.clear_pipeline();
    command::FirstError error(&context);
    FailureOr<ModuleOp> whole = forecaster.train(job);
    if (failed(whole)) {
      return "";
    }
    for (auto write : nn::findProgram(*whole, nn::ProgramRole::TrainStep).front().getOps<nn::WriteOp>()) {
      if (write->hasAttr(nn::kForwardWriteAttr)) {
        return "batch normalizations, which move \"" + write.getVariable().str() + "\", take the statistics of a micro-batch";
      }
    }
    // Into the fewest micro-batches that divide the batch.
    for (int64_t count = 2; count <= job.global_batch(); ++count) {
      if (job.global_batch() % count == 0) {
        job.set_accumulate(count);
        job::takeExactLoss(job);
        return failed(forecaster.train(job)) ? StringRef(error.text()).split(';').first.str() : ""; // the remedy is another one
      }
    }
    return "";
  }

  // Returns by what candidates are compared: those that fit by time, those that do not by memory, then those that cannot be.
  std::pair<int, int64_t> rank(const Candidate &candidate) const {
    if (!candidate.row.forecast) {
      return {2, 0};
    }
    const Forecast &forecast = *candidate.row.forecast;
    return fits(candidate) ? std::pair(0, forecast.stepPs) : std::pair(1, static_cast<int64_t>(forecast.leastBytes));
  }

  void sort() {
    sortBy(found.candidates, [&](const Candidate &each) { return rank(each); });
  }

  // Forecasts a job that was not tried yet, unless the effort is over. Returns what it found.
  std::optional<Candidate> tryJob(job::Job job) {
    if (!tried.insert(job.SerializeAsString()).second) {
      return std::nullopt;
    }
    if (effort.isOver() && llvm::any_of(found.candidates, [](const Candidate &each) { return each.row.forecast.has_value(); })) {
      ++found.left;
      return std::nullopt;
    }
    Candidate candidate{std::move(job), {}};
    candidate.row = makeRow(candidate.job);
    command::FirstError error(&context);
    if (llvm::Error fault = command::checkInput(options, candidate.job, input)) {
      candidate.row.refusal = llvm::toString(std::move(fault));
    } else if (FailureOr<Forecast> forecast = forecaster.forecast(candidate.job, effort); succeeded(forecast)) {
      candidate.row.forecast = std::move(*forecast);
    } else {
      candidate.row.refusal = error.text();
    }
    found.candidates.push_back(candidate);
    return candidate;
  }

  // Changes one thing of a job at a time while that makes it better.
  void refine(Candidate best) {
    for (bool isBetterNow = best.row.forecast.has_value(); isBetterNow;) {
      isBetterNow = false;
      for (job::Job &job : listChanges(best)) {
        std::optional<Candidate> candidate = tryJob(std::move(job));
        if (candidate && rank(*candidate) < rank(best)) {
          best = std::move(*candidate);
          isBetterNow = true;
          break;
        }
      }
    }
  }

  // Returns a job with one change each, of what the user left open.
  std::vector<job::Job> listChanges(const Candidate &candidate) const {
    std::vector<job::Job> changed;
    auto add = [&](auto change) {
      job::Job job = candidate.job;
      change(job);
      changed.push_back(std::move(job));
    };
    if (mayDivide && candidate.job.has_pipeline()) {
      const int32_t count = candidate.job.pipeline().micro_batches(), stages = candidate.job.pipeline().stages();
      for (int32_t other : {2 * count, count / 2}) {
        if (other >= stages && input.job.global_batch() % other == 0) {
          add([&](job::Job &job) { job.mutable_pipeline()->set_micro_batches(other); });
        }
      }
      add([](job::Job &job) {
        job.mutable_pipeline()->set_schedule(job::Pipeline::INTERLEAVED);
        job.mutable_pipeline()->set_chunks(2);
      });
      add([](job::Job &job) {
        job.mutable_pipeline()->set_schedule(job::Pipeline::ZERO_BUBBLE);
        job.mutable_pipeline()->clear_chunks();
      });
    }
    if (input.memoryLimit == 0) {
      return changed;
    }
    if (!input.job.has_recompute()) {
      add([](job::Job &job) { job.set_recompute(job::Recompute::AUTO); });
    }
    if (mayDivide && !candidate.job.has_pipeline() && !fits(candidate) &&
        input.job.global_batch() % (2 * candidate.job.accumulate()) == 0) {
      add([&](job::Job &job) {
        job.set_accumulate(2 * candidate.job.accumulate());
        job::takeExactLoss(job);
      });
    }
    return changed;
  }

  const command::Options &options;
  const command::Input &input;
  JobForecaster &forecaster;
  MLIRContext &context;
  search::Effort effort;
  std::set<std::string> tried; // serialized jobs
  bool mayDivide = false;      // whether the search gives jobs stages and micro-batches
  FoundMeshes found;
};

} // namespace

PlannedMesh makeRow(const job::Job &job) {
  PlannedMesh row;
  for (const job::Mesh::Axis &axis : job.mesh().axes()) {
    row.axes.push_back({axis.name(), axis.size()});
  }
  row.stages = job.has_pipeline() ? job.pipeline().stages() : 1;
  row.devices = job::numDevices(job) * row.stages;
  row.microBatches = job::microBatches(job);
  row.schedule = job.has_pipeline() && !job.pipeline().has_order() ? job::Pipeline::Schedule_Name(job.pipeline().schedule()) : "";
  row.recomputes = job.recompute() == job::Recompute::AUTO;
  return row;
}

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
  sortBy(shapes, [](const Shape &shape) {
    return std::pair(*llvm::max_element(shape.sizes) * shape.stages, !std::is_sorted(shape.sizes.rbegin(), shape.sizes.rend()));
  });
  std::vector<job::Job> jobs;
  llvm::for_each(shapes, [&](const Shape &shape) { jobs.push_back(withMesh(job, shape.stages, shape.sizes)); });
  return jobs;
}

llvm::Error refuseAll(ArrayRef<Candidate> candidates) {
  const size_t others = candidates.size() - 1;
  return llvm::createStringError(
      candidates.front().row.refusal +
      (others == 0 ? "" : "; and no other of the " + std::to_string(candidates.size()) + " meshes can be, either"));
}

FoundMeshes searchMeshes(const command::Options &options, const command::Input &input, JobForecaster &forecaster, MLIRContext &context) {
  return MeshSearch(options, input, forecaster, context).run();
}

llvm::Expected<FoundMeshes> chooseMesh(const command::Options &options, command::Input &input) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  command::Options planned = options;
  planned.timeline.clear(); // whether there are stages is not known yet
  planned.saveOrder.clear();
  JobForecaster forecaster(planned, input, context);
  FoundMeshes found = searchMeshes(planned, input, forecaster, context);
  if (found.candidates.empty()) {
    return llvm::createStringError("no mesh was found for " + std::to_string(input.job.mesh().devices()) + " devices");
  }
  const Candidate &best = found.candidates.front();
  if (!best.row.forecast) {
    return refuseAll(found.candidates);
  }
  const lower::MemoryUse &memory = best.row.forecast->memory;
  if (const uint64_t least = best.row.forecast->leastBytes; input.memoryLimit != 0 && least > static_cast<uint64_t>(input.memoryLimit)) {
    return llvm::createStringError("a device may hold " + report::comparedBytes(input.memoryLimit, least).first + ", and the smallest of " +
                                   std::to_string(found.candidates.size()) + " meshes (" + meshName(best.row) + ") is predicted to take " +
                                   report::memoryText(memory, input.memoryLimit) + "; give it more devices or a smaller batch");
  }
  input.job = best.job;
  if (llvm::Error error = command::checkInput(options, input.job, input)) {
    return std::move(error);
  }
  return std::move(found);
}

report::MeshSearchFact describeMeshes(const FoundMeshes &found, int64_t memoryLimit, double searchSeconds) {
  report::MeshSearchFact fact{{}, found.candidates.size(), found.left, {}};
  if (found.isStopped) {
    fact.stoppedSeconds = searchSeconds;
  }
  for (const Candidate &candidate : found.candidates) {
    if (const std::optional<Forecast> &forecast = candidate.row.forecast;
        forecast && (memoryLimit == 0 || forecast->leastBytes <= static_cast<uint64_t>(memoryLimit))) {
      fact.meshes.push_back({meshName(candidate.row), forecast->stepPs, static_cast<int64_t>(forecast->memory.bytes())});
    }
  }
  return fact;
}

} // namespace ashlar::planning

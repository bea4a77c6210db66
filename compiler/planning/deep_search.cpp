// SPDX-License-Identifier: Apache-2.0
//
// See deep_search.h.

#include "compiler/planning/deep_search.h"

#include "compiler/cost/machine.h"
#include "compiler/job/job.h"
#include "compiler/planning/candidate_jobs.h"
#include "compiler/planning/sort_by.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <set>
#include <utility>

namespace ashlar::planning {
namespace {

constexpr size_t kRefined = 3; // meshes that others are made of

// Whether the last axis of a mesh, along which devices are neighbours, stays on a host, or has no other beside it.
bool staysOnHost(const job::Job &job, int64_t ranksPerHost) {
  const auto &axes = job.mesh().axes();
  return axes.rbegin()->size() <= ranksPerHost ||
         llvm::all_of(llvm::drop_end(axes), [](const job::Mesh::Axis &axis) { return axis.size() == 1; });
}

std::string nameOfPrograms(const job::Job &job) {
  return withoutOrder(job).SerializeAsString();
}

class DeepSearch {
public:
  explicit DeepSearch(const DeepSearchContext &context) : context(context) {}

  std::vector<RankedJob> run(llvm::ArrayRef<job::Job> jobs) {
    const int64_t ranksPerHost = cost::machineOf(context.input.job, context.input.target->kind()).ranksPerHost;
    auto estimateAll = [&] {
      for (const job::Job &job : jobs) {
        if (staysOnHost(job, ranksPerHost)) { // others are made of the best of these
          estimate(listLevels(inFewSamples(job)).front());
        }
      }
      shrink();
    };
    estimateAll();
    if (bestStep() == kNever) {
      context.ranking.keepLimit();
      estimated.clear();
      shrunk.clear();
      std::vector<RankedJob> larger = std::exchange(ranked, {});
      estimateAll();
      if (ranked.empty()) { // no effort was left
        ranked = std::move(larger);
      }
    }
    for (size_t before = 0; before != ranked.size();) {
      before = ranked.size();
      sort();
      for (const job::Job &job : bestMeshes()) {
        llvm::for_each(listNeighbours(job), [&](const job::Job &each) { estimate(each); });
      }
      shrink();
    }
    sort();
    return std::move(ranked);
  }

private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  bool limitsMemory() const { return context.input.memoryLimit > 0; }

  job::Job inFewSamples(const job::Job &job) const { return context.mayDivide ? withMicroBatches(job, mostMicroBatches(job)) : job; }

  // Returns a job on each level of optimizer parallelism, where memory matters and the user left it open; else the job.
  std::vector<job::Job> listLevels(const job::Job &job) const {
    const bool isOpen = limitsMemory() && !context.input.job.has_optimizer_parallel();
    std::vector<job::Job> levels = isOpen ? planning::listLevels(job) : std::vector<job::Job>();
    return levels.empty() ? std::vector<job::Job>{job} : levels;
  }

  // Returns jobs with other micro-batches, and with a larger last axis.
  std::vector<job::Job> listNeighbours(const job::Job &job) const {
    std::vector<job::Job> jobs;
    const int64_t count = job::microBatches(job), stages = job.has_pipeline() ? job.pipeline().stages() : 1;
    for (int64_t other : {2 * count, count / 2}) {
      if (context.mayDivide && other >= stages && job.global_batch() % other == 0) {
        jobs.push_back(withMicroBatches(job, other));
      }
    }
    if (context.mayDivide && job.has_pipeline()) {
      jobs.push_back(withZeroBubble(job));
    }
    if (std::optional<job::Job> larger = withLargerLastAxis(job)) {
      jobs.push_back(inFewSamples(*larger));
    }
    return jobs;
  }

  bool isOver() const { return context.effort.left() <= context.unitsLeft || context.effort.isOver(); }

  // Adds the estimates of a job in all schedules that it may have, unless they are known.
  void estimate(const job::Job &job) {
    if (job.pipeline().stages() > context.ranking.layers() || isOver()) {
      return;
    }
    const bool isOpen = context.mayDivide && job.has_pipeline();
    for (job::Job &each : isOpen ? listSchedules(job, context.ranking.layers()) : std::vector<job::Job>{job}) {
      llvm::Error fault = command::checkInput(context.options, each, context.input);
      const bool isWrong = static_cast<bool>(fault);
      llvm::consumeError(std::move(fault));
      if (isWrong || !estimated.insert(each.SerializeAsString()).second) {
        continue;
      }
      const bool searchesRecompute = each.has_recompute() && !context.input.job.has_recompute();
      std::optional<Estimate> found = context.ranking.estimate(each, context.effort);
      const bool isOther = found && (found->recomputed > 0 || !searchesRecompute); // else it is the job without
      if (isOther && differsFromLowerLevels(each, *found)) {
        ranked.push_back({std::move(each), *found});
      }
    }
  }

  // Whether a job takes another time or other bytes than on lower levels of optimizer parallelism: where layouts shard all state, it does
  // not.
  bool differsFromLowerLevels(const job::Job &job, const Estimate &estimate) const {
    auto withoutLevel = [](job::Job made) {
      made.clear_optimizer_parallel();
      return made.SerializeAsString();
    };
    return llvm::none_of(ranked, [&](const RankedJob &other) {
      return other.estimate.stepPs == estimate.stepPs && other.estimate.bytes == estimate.bytes &&
             withoutLevel(other.job) == withoutLevel(job);
    });
  }

  // Estimates jobs above the limit in the ways to take less memory that they leave open, the fastest first, until none of them is faster
  // than the best that fits.
  void shrink() {
    std::vector<RankedJob> large;
    llvm::copy_if(ranked, std::back_inserter(large), [&](const RankedJob &each) { return !fits(each.estimate); });
    sortBy(large, [](const RankedJob &each) { return each.estimate.stepPs; });
    for (const RankedJob &each : large) {
      if (each.estimate.stepPs >= bestStep()) {
        return;
      }
      if (shrunk.insert(nameOfPrograms(each.job)).second) {
        shrink(each.job);
      }
    }
  }

  // Levels from 2 on send gradients in each micro-batch: where there are several, rematerialization comes first.
  void shrink(const job::Job &large) {
    for (const job::Job &level : listHigherLevels(large)) {
      shrunk.insert(nameOfPrograms(level));
      estimate(level);
      job::Job recomputed = level;
      recomputed.set_recompute(job::Recompute::AUTO);
      if (!context.input.job.has_recompute() && shortestStep(nameOfPrograms(level), /*isLarge=*/true) < bestStep()) {
        estimate(recomputed);
      }
      if (job::microBatches(large) > 1 && shortestStep(nameOfPrograms(recomputed), /*isLarge=*/false) < kNever) {
        return;
      }
    }
  }

  // Returns a job, and the same on each level of optimizer parallelism above its own.
  std::vector<job::Job> listHigherLevels(const job::Job &job) const {
    std::vector<job::Job> jobs = {job};
    llvm::copy_if(listLevels(job), std::back_inserter(jobs),
                  [&](const job::Job &each) { return each.optimizer_parallel().level() > job.optimizer_parallel().level(); });
    return jobs;
  }

  // Returns the least step of jobs of equal programs that fit, or of those above the limit.
  int64_t shortestStep(const std::string &programs, bool isLarge) const {
    int64_t least = kNever;
    for (const RankedJob &each : ranked) {
      if (fits(each.estimate) != isLarge && nameOfPrograms(each.job) == programs) {
        least = std::min(least, each.estimate.stepPs);
      }
    }
    return least;
  }

  // Returns the least step of the jobs that fit.
  int64_t bestStep() const {
    int64_t least = kNever;
    for (const RankedJob &each : ranked) {
      least = fits(each.estimate) ? std::min(least, each.estimate.stepPs) : least;
    }
    return least;
  }

  bool fits(const Estimate &estimate) const {
    return !limitsMemory() || estimate.bytes <= static_cast<uint64_t>(context.input.memoryLimit);
  }

  // Returns by what estimates are compared: those that may fit by time, then larger ones by memory. An estimate of memory errs by a
  // twentieth.
  std::pair<int, int64_t> keyOf(const Estimate &estimate) const {
    constexpr uint64_t kParts = 20;
    const auto limit = static_cast<uint64_t>(context.input.memoryLimit);
    const bool mayFit = !limitsMemory() || estimate.bytes <= limit + limit / kParts;
    return mayFit ? std::pair(0, estimate.stepPs) : std::pair(1, static_cast<int64_t>(estimate.bytes));
  }

  void sort() {
    sortBy(ranked, [&](const RankedJob &each) { return keyOf(each.estimate); });
  }

  // Returns the best jobs on different meshes.
  std::vector<job::Job> bestMeshes() const {
    std::vector<job::Job> jobs;
    std::set<std::string> meshes;
    for (const RankedJob &each : ranked) {
      if (jobs.size() < kRefined && meshes.insert(each.job.mesh().SerializeAsString()).second) {
        jobs.push_back(each.job);
      }
    }
    return jobs;
  }

  const DeepSearchContext &context;
  std::vector<RankedJob> ranked;
  std::set<std::string> estimated; // serialized jobs
  std::set<std::string> shrunk;    // but for their schedules
};

} // namespace

std::vector<RankedJob> rankJobs(const DeepSearchContext &context, llvm::ArrayRef<job::Job> jobs) {
  return DeepSearch(context).run(jobs);
}

} // namespace ashlar::planning

// SPDX-License-Identifier: Apache-2.0
//
// Estimates of the jobs of a deep model, to choose the ones worth a forecast: a forecast of 96 layers takes seconds, one of two
// layers a tenth of a second.

#ifndef ASHLAR_COMPILER_PLANNING_JOB_RANKING_H
#define ASHLAR_COMPILER_PLANNING_JOB_RANKING_H

#include "compiler/planning/equal_layers.h"
#include "compiler/planning/estimated_step.h"
#include "compiler/planning/job_forecaster.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace ashlar::planning {

// Estimates jobs that differ in their meshes, stages, micro-batches, schedules, levels of optimizer parallelism and rematerialization.
// Layouts are searched on a model of a few layers, once for all jobs with the same last axis and samples for the devices along it; a job
// takes the fastest of all with its last axis. All layers between the first and the last one have equal layouts and costs.
class JobRanking {
public:
  // `whole` forecasts the jobs with all layers, and outlives it.
  JobRanking(JobForecaster &whole, int64_t memoryLimit) : whole(whole), memoryLimit(memoryLimit), few(whole, kFew), more(whole, kMore) {}

  // Whether the model of a job has enough equal layers for estimates to be worth it: fewer are forecast as fast.
  bool applies(const job::Job &job);

  // Returns the models of a few layers.
  JobForecaster &shortModel() { return more; }

  // Returns the number of equal layers of the model.
  int64_t layers() const { return count; }

  // Returns about the units of an effort that the layouts and the program of all layers take.
  int64_t unitsOfForecast(const job::Job &job) { return more.unitsOf(job) / kMore * count; }

  // Returns the estimate of a job, with a search for layouts where none are known, whose work `effort` counts; nothing where it cannot be
  // compiled. Layouts are the fastest ones, whether the job fits with them or not. With `recompute: AUTO` rematerialization goes on until
  // the job fits.
  std::optional<Estimate> estimate(const job::Job &job, search::Effort &effort);

  // From here on searches smaller layouts where the fastest ones take more than the memory limit: a search a job, so for want of others.
  void keepLimit() { keepsLimit = true; }

  // Returns the layouts of an estimated job, for a forecast of it.
  LayoutHandover layoutsOf(const job::Job &job) const;

private:
  static constexpr int64_t kFew = 2, kMore = 4; // layers: in each of two stages one, and two
  static constexpr int64_t kLeastLayers = 16;   // for which estimates are worth it

  static constexpr int64_t kShares = 4; // of the moves of rematerialization: all, and so many parts of them

  struct Sketch {
    std::shared_ptr<const KnownLayouts> layouts; // of a model of kMore layers
    bool keepsLimit = false;                     // when it was drawn
    int64_t movesOfFew = 0, movesOfMore = 0;     // of rematerialization, that there are
    std::map<int64_t, ModelNumbers> whole;       // by the parts of the moves taken; 0: none
  };

  std::shared_ptr<const KnownLayouts> search(const job::Job &drawn, search::Effort &effort, int64_t limit);
  llvm::SmallVector<std::shared_ptr<const KnownLayouts>> fastLayouts(const job::Job &drawn, search::Effort &effort);
  std::optional<Sketch> drawFastest(const job::Job &job, const job::Job &drawn, search::Effort &effort);
  std::optional<Sketch> measured(const job::Job &drawn, std::shared_ptr<const KnownLayouts> known, search::Effort &effort);
  std::optional<Sketch> draw(const job::Job &job, const job::Job &drawn, search::Effort &effort);
  bool measure(const job::Job &drawn, int64_t shares, Sketch &sketch, search::Effort &effort);
  std::optional<Estimate> recompute(const job::Job &drawn, const job::Job &job, Sketch &sketch, search::Effort &effort);
  double shareOfParameters(const job::Job &job);

  JobForecaster &whole;
  const int64_t memoryLimit;
  JobForecaster few, more;
  int64_t count = 0;
  bool keepsLimit = false;
  std::optional<LayerNames> names;
  std::map<std::string, std::optional<Sketch>> sketches; // by the job in two stages, serialized
  // By the size of the last axis and the samples for all devices along it: of the first job with these.
  std::map<int64_t, std::map<double, std::shared_ptr<const KnownLayouts>>> layouts;
  std::map<std::string, std::shared_ptr<const KnownLayouts>> fastest; // by the job in two stages without its level, serialized
};

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_JOB_RANKING_H

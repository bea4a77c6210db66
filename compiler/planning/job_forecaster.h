// SPDX-License-Identifier: Apache-2.0
//
// The cost of a step of a model by one job or another. Nothing is compiled.

#ifndef ASHLAR_COMPILER_PLANNING_JOB_FORECASTER_H
#define ASHLAR_COMPILER_PLANNING_JOB_FORECASTER_H

#include "compiler/command/input.h"
#include "compiler/planning/forecast.h"
#include "compiler/planning/known_layouts.h"
#include "compiler/planning/recompute_search.h"

#include <functional>
#include <map>
#include <tuple>

namespace ashlar::planning {

// The layouts that a forecast takes instead of a search, and where it leaves its own. Null: neither. And what is known of it besides.
struct LayoutHandover {
  const KnownLayouts *known = nullptr;
  std::function<std::string(llvm::StringRef)> nameOf; // of `known` (KnownLayouts::give)
  KnownLayouts *found = nullptr;
  job::Strategy *strategy = nullptr; // of all values; empty where loops are computed again in segments, which change the model
  MovesGuess guess = {};             // of `recompute: AUTO`; null: none
};

// A model is imported once for each number of micro-batches, and made to train once for each number of replicas that batch normalizations
// see; each job gets a copy, and layouts of its own.
class JobForecaster {
public:
  // `options` and `input` outlive it; of the input's job nothing is looked at.
  JobForecaster(const command::Options &options, command::Input &input, mlir::MLIRContext &context)
      : options(options), input(input), context(context) {}

  // The same of the model of `whole`, which outlives it, with its first `layers` equal layers alone.
  JobForecaster(JobForecaster &whole, int64_t layers)
      : options(whole.options), input(whole.input), context(whole.context), whole(&whole), layers(layers) {}

  // Returns the model for the batch of a checked job. Fails, with an error, where it cannot be imported.
  mlir::FailureOr<mlir::ModuleOp> import(const job::Job &job);

  // Returns the programs of a checked job on global shapes, with so many loops computed again in segments beside the ones of its rules.
  // Fails, with an error, where the model cannot be imported or trained.
  mlir::FailureOr<mlir::ModuleOp> train(const job::Job &job, int64_t loops = 0);

  // Returns the cost of a step of a checked job. In mode AUTO layouts are searched as by a compilation; with `recompute: AUTO`
  // rematerialization goes on until the program fits the memory limit of the input. Fails, with an error, where the job cannot be compiled.
  // `effort` counts the work, which it does not bound: of it the search for layouts has the seconds that are left alone.
  mlir::FailureOr<Forecast> forecast(const job::Job &job, search::Effort &effort, const LayoutHandover &handover = {});

  // The same with the first layouts that a search finds for `memoryLimit` bytes of a device, or the known ones, whether the program fits
  // or not, and with so many moves of rematerialization by cost.
  mlir::FailureOr<Forecast> sketch(const job::Job &job, search::Effort &effort, int64_t memoryLimit, const LayoutHandover &handover,
                                   int64_t moves = 0);

  // Returns the units that an effort counts for the layouts and the program of a checked job, without a search; 0 where it cannot be
  // trained.
  int64_t unitsOf(const job::Job &job);

private:
  mlir::FailureOr<Forecast> forecastTrained(mlir::ModuleOp programs, const job::Job &job, search::Effort &effort,
                                            const LayoutHandover &handover);
  mlir::FailureOr<Forecast> forecastRecomputed(mlir::ModuleOp programs, pipelines::Variant &variant, const job::Job &job,
                                               search::Effort &effort, const MovesGuess &guess);
  mlir::FailureOr<Forecast> forecastLayouts(mlir::ModuleOp programs, pipelines::Variant &variant, const job::Job &job,
                                            search::Effort &effort, const LayoutHandover &handover);

  const command::Options &options;
  command::Input &input;
  mlir::MLIRContext &context;
  JobForecaster *whole = nullptr;                                                             // whose model this one shortens
  int64_t layers = 0;                                                                         // of that
  std::map<int64_t, mlir::OwningOpRef<mlir::ModuleOp>> imported;                              // by micro-batches
  std::map<std::tuple<int64_t, int64_t, int64_t>, mlir::OwningOpRef<mlir::ModuleOp>> trained; // by these, replicas and loops
};

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_JOB_FORECASTER_H

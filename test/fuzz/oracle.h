// SPDX-License-Identifier: Apache-2.0
//
// The question to each program: do n ranks compute the same as one rank? The reference interpreter runs the program on global shapes on one
// rank, and the output of the compiler's own passes on a simulated rank for each device of the mesh, from the same inputs. Every verify
// pass runs, and so does lowering up to the instruction tables.
//
// A program with a pipeline (random_pipeline.h) is cut into its stages, which run in their schedule, each on a rank for each device of the
// mesh; they are compared with the whole program that adds up the same micro-batches.
//
// The tolerance is in rounding.h: elements that are close agree, for the others rounding.h measures how far rounding moves them. A program
// with too many elements decided by rounding is inconclusive: other inputs are drawn for it, and when they do not help it fails.

#ifndef ASHLAR_TEST_FUZZ_ORACLE_H
#define ASHLAR_TEST_FUZZ_ORACLE_H

#include "dialects/exec/exec.h"
#include "test/fuzz/rounding.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <map>
#include <string>

namespace ashlar::fuzz {

// The share of a program's elements that may be undecided, and of the elements of a whole run.
inline constexpr double kMaxUndecided = 0.5, kMaxUndecidedOfRun = 0.01;

// How a program can fail.
enum class FailureKind {
  None,
  Program,    // the program itself is none: it does not verify, or one rank cannot run it
  Passes,     // a pass of layout or partition reports an error
  Estimate,   // a program sends other bytes than the cost of its layouts
  Run,        // the partitioned program cannot be run, or ranks disagree on a replicated value
  Difference, // other numbers
  Lower,      // a pass of lowering reports an error
  Executable, // the compiled program cannot be built or run, or computes other numbers
  Undecided,  // rounding decides more than kMaxUndecided of its elements, with any of some inputs
  Crash,      // an assertion or a signal
  Timeout,    // a run without end
};

// Returns the kind as a word.
llvm::StringRef nameOf(FailureKind kind);

struct Verdict {
  FailureKind kind = FailureKind::None;
  std::string message;                  // the first error; the value that differs, and by how much
  double difference = 0;                // the largest of elements that are not undecided, when both programs ran
  int64_t elements = 0, undecided = 0;  // that were compared
  Precision precision = Precision::F64; // of the program
  int64_t further = 0;                  // undecided elements that go further than their own draws: Comparison

  bool ok() const { return kind == FailureKind::None; }

  // Returns the invariant of a program's reduction: kind and message without numbers and names.
  std::string signature() const;
};

// The ranks of a pipeline that are run under mpirun.
inline constexpr int64_t kMostPipelineRanks = 8;

// Counts of ops by name.
using Census = std::map<std::string, int64_t>;

// The name of collectives of several tensors in the census.
inline constexpr const char *kFusedCensus = "fused collectives";

// The names in the census of programs that were cut into stages, and of programs with too few ops for their stages; these are checked
// whole.
inline constexpr const char *kPipelineCensus = "pipelines", *kRefusedPipelineCensus = "pipelines refused";

// What programs are counted as of kinds in which faults were found: with a conv_data whose operand or result is exchanged between devices;
// with two shapes of a value that are one on a device, and gathered; cut into stages, with levels of optimizer parallelism and recompute
// rules; with repeats when partitioned, in pipelines, and with collectives in bodies; on a mesh that redistributions cut; with elements
// that rounding decides, and with some that went further than twice as far as it was seen to move them. Of executables it
// is counted which faults they would show (planted.h).
inline constexpr const char *kDataHaloCensus = "halos of nn.conv_data", *kShapePairCensus = "gathers of two shapes",
                            *kDeepPipelineCensus = "pipelines, levels, recompute", *kCutMeshCensus = "cut meshes",
                            *kRepeatCensus = "repeats", *kRepeatPipelineCensus = "repeats in pipelines",
                            *kRepeatCollectiveCensus = "collectives in repeats", *kUndecidedCensus = "undecided by rounding",
                            *kFurtherCensus = "further than rounding seen", *kShownCensus = "shows ";

struct CheckOptions {
  // Adds the passes from global shapes to one device's program; the compiler's own when not given.
  std::function<void(mlir::OpPassManager &, mlir::ModuleOp)> addPasses;
  bool lower = true;                       // on to the instruction tables
  bool executable = false;                 // compile, and run under mpirun; not what has more than kMostPipelineRanks ranks in stages
  exec::Target target = exec::Target::Cpu; // of what is lowered; executables of the cuda target run on the emulator
  std::string packFolder;                  // not empty: executables are kept there with inputs and results, and not run
  Census *census = nullptr;                // of the ops of the program, and the collectives that came out
};

// Adds the compiler's passes of layout and partition for a program with a mesh, and the cut of one with a pipeline, and puts the costs of
// its links on the mesh; variables by kSplitVariablesAttr.
void addDistPasses(mlir::OpPassManager &passes, mlir::ModuleOp program);

// Checks a program: @init, if there, then @forward, or twice @train_step and once @eval_step; of one with a pipeline two whole steps and
// some evaluations. Leaves it as it is.
Verdict checkProgram(mlir::ModuleOp program, const CheckOptions &options);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_ORACLE_H

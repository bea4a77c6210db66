// SPDX-License-Identifier: Apache-2.0
//
// The question to each program: do n ranks compute what one rank does? The reference interpreter runs the program on global shapes on one
// rank, and what the compiler's own passes make of it on a simulated rank for each device of the mesh, from the same inputs. Every verify
// pass runs, and so does lowering up to the instruction tables.
//
// Tolerance, on |x - y| / max(1, |x|): both sides compute the same terms and add them in another order. Values are at most some units, sums
// have at most some hundred terms and chains some dozens of ops, so in f64 rounding (2^-53 each) reaches 1e-13 or so in a forward program;
// gradients through divisions, logarithms and powers of numbers from 0.1 on, followed by two updates, add some digits. A wrong term, by
// contrast, is of the order of 1e-3 at the least. The tolerance lies between. In f32 (2^-24) the same counts leave less room. In bf16 and
// f16 a rounding is as large as a small term, and what becomes of it depends on the program: there the program itself is the measure, in
// f32 against its own precision. A split sum makes no more roundings than a few times those that are there already.

#ifndef ASHLAR_TEST_FUZZ_ORACLE_H
#define ASHLAR_TEST_FUZZ_ORACLE_H

#include "dialects/exec/exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <map>
#include <string>

namespace ashlar::fuzz {

inline constexpr double kTolerance = 1e-11, kTolerance32 = 1e-3, kTolerance16 = 1e-2;

// Returns the tolerance for a program: kTolerance32 when it computes in f32; in bf16 or f16 kTolerance16 and four times what their rounding
// makes of its results, for which it is run.
double toleranceOf(mlir::ModuleOp program);

// How a program can fail.
enum class FailureKind {
  None,
  Program,    // the program itself is none: it does not verify, or one rank cannot run it
  Passes,     // a pass of layout or partition reports an error
  Run,        // the partitioned program cannot be run, or ranks disagree on what they all hold
  Difference, // other numbers
  Lower,      // a pass of lowering reports an error
  Executable, // the compiled program cannot be built or run, or computes other numbers
  Crash,      // an assertion, a signal or a run without end
};

// Returns the kind as a word.
llvm::StringRef nameOf(FailureKind kind);

struct Verdict {
  FailureKind kind = FailureKind::None;
  std::string message;   // the first error; what differs by how much
  double difference = 0; // the largest, when both programs ran

  bool ok() const { return kind == FailureKind::None; }

  // Returns what stays the same while a program is reduced: kind and message without numbers and names.
  std::string signature() const;
};

// Counts of ops by name.
using Census = std::map<std::string, int64_t>;

struct CheckOptions {
  // Adds the passes from global shapes to one device's program; the compiler's own when not given.
  std::function<void(mlir::OpPassManager &, mlir::ModuleOp)> addPasses;
  bool lower = true;                       // on to the instruction tables
  bool executable = false;                 // compile, and run under mpirun
  exec::Target target = exec::Target::Cpu; // of what is lowered; executables of the cuda target run on the emulator
  std::string packFolder;                  // not empty: executables are kept there with inputs and results, and not run
  Census *census = nullptr;                // of the ops of the program, and the collectives that came out
};

// Adds the compiler's passes of layout and partition for a program with a mesh; variables as kSplitVariablesAttr says.
void addDistPasses(mlir::OpPassManager &passes, mlir::ModuleOp program);

// Checks a program: @init, if there, then @forward, or twice @train_step and once @eval_step. Leaves it as it is.
Verdict checkProgram(mlir::ModuleOp program, const CheckOptions &options);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_ORACLE_H

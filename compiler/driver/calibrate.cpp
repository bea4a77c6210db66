// SPDX-License-Identifier: Apache-2.0
//
// Collectives are measured over 2, 4, 8, ... ranks; the device in the last run, beside all ranks.

#include "compiler/driver/calibrate.h"

#include "compiler/command/diagnostics.h"
#include "compiler/cost/calibration.h"
#include "compiler/file/installation.h"
#include "compiler/file/output_file.h"
#include "compiler/target/tool.h"
#include "dialects/exec/target_traits.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Threading.h"

namespace ashlar::driver {
namespace {

using llvm::createStringError;

// Returns the program that measures, which lies beside the compiler.
llvm::Expected<std::string> findMeter() {
  const std::string path = file::installedFile("bin/ashlar-calibrate");
  if (!llvm::sys::fs::can_execute(path)) {
    return createStringError("--calibrate starts " + path + ", and it is not there; build the target ashlar-calibrate");
  }
  return path;
}

// Has so many ranks measure, and adds what they found.
llvm::Error measure(llvm::StringRef meter, int ranks, bool withDevice, cost::Measurements &found) {
  const std::string count = std::to_string(ranks);
  llvm::SmallVector<llvm::StringRef> arguments;
  std::string program = meter.str();
  if (ranks > 1) {
    program = target::findProgram({"mpirun"});
    if (program.empty()) {
      return createStringError("--calibrate measures " + count +
                               " ranks, and there is no mpirun on the PATH to start them; install Open MPI, or measure one: --ranks 1");
    }
    arguments = {"-n", count, meter, "collectives"};
  }
  if (withDevice) {
    arguments.push_back("device");
  }
  target::ToolRun run;
  if (llvm::Error error = run.start(program, arguments)) {
    return error;
  }
  if (llvm::Error error = run.wait()) {
    return createStringError("cannot measure " + count + (ranks == 1 ? " rank: " : " ranks: ") + llvm::toString(std::move(error)));
  }
  return found.add(run.output());
}

// Says of which kinds of collectives the formula is far off.
void warnOfFits(const cost::Measurements &found) {
  constexpr double kMostDeviation = 0.5;
  std::string kinds;
  for (const auto &[kind, fit] : found.fits()) {
    if (fit.second.deviation > kMostDeviation) {
      kinds += (kinds.empty() ? "" : ", ") + job::Machine::CollectiveRate::Kind_Name(kind);
    }
  }
  if (!kinds.empty()) {
    llvm::errs() << "warning: one latency and one bandwidth miss the times of half of the collectives by more than 50 %, of " << kinds
                 << "; measure again when the machine does nothing else\n";
  }
}

llvm::Error measureAndWrite(const CalibrateOptions &options) {
  std::optional<exec::Target> target = exec::symbolizeTarget(options.target);
  if (!target || exec::traitsOf(*target).hasPresets) {
    return createStringError("--calibrate measures processors, and the target is " + options.target +
                             "; its rates are in machine { preset: H100 } (A100, H100, H200), or enter your own measurements");
  }
  if (llvm::Error error = file::checkOutput(options.output)) {
    return error;
  }
  llvm::Expected<std::string> meter = findMeter();
  if (!meter) {
    return meter.takeError();
  }
  const int ranks = options.ranks != 0 ? options.ranks : static_cast<int>(llvm::heavyweight_hardware_concurrency().compute_thread_count());
  cost::Measurements found;
  for (int64_t count = 2; count < ranks; count *= 2) {
    if (llvm::Error error = measure(*meter, static_cast<int>(count), /*withDevice=*/false, found)) {
      return error;
    }
  }
  if (llvm::Error error = measure(*meter, ranks, /*withDevice=*/true, found)) {
    return error;
  }
  llvm::Expected<job::Machine> machine = found.machine();
  if (!machine) {
    return machine.takeError();
  }
  warnOfFits(found);
  return file::writeOutput(options.output, [&](llvm::raw_ostream &out) { cost::writeMachine(out, found, *machine, ranks); });
}

} // namespace

int calibrate(const CalibrateOptions &options) {
  return succeeded(command::report(measureAndWrite(options))) ? 0 : 1;
}

} // namespace ashlar::driver

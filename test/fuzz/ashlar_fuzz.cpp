// SPDX-License-Identifier: Apache-2.0
//
// ashlar-fuzz: checks random programs, seed after seed, and reduces those that fail; or checks one program from a file. docs/howto/fuzz.md.

#include "compiler/file/output_file.h"
#include "compiler/file/process.h"
#include "dialects/dist/dist.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/dist/stages.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "test/fuzz/job_check.h"
#include "test/fuzz/random_program.h"
#include "test/fuzz/reducer.h"
#include "test/fuzz/summary.h"
#include "test/fuzz/worker.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"

#include <chrono>

#include <sys/resource.h>

using namespace mlir;
using namespace ashlar;
using namespace ashlar::fuzz;
namespace cl = llvm::cl;

namespace {

cl::OptionCategory category("Options");
cl::opt<uint64_t> numSeeds("seeds", cl::desc("Number of seeds"), cl::init(1000), cl::cat(category));
cl::opt<uint64_t> startSeed("start", cl::desc("First seed"), cl::init(1), cl::cat(category));
cl::opt<unsigned> numJobs("jobs", cl::desc("Processes at a time"), cl::init(2), cl::cat(category));
cl::opt<uint64_t> executableEvery("executable-every", cl::desc("Every K-th seed is compiled and run under mpirun too; 0: none"),
                                  cl::value_desc("K"), cl::init(0), cl::cat(category));
cl::opt<uint64_t>
    jobEvery("job-every", cl::desc("Every K-th seed is a job from end to end, not a program: ashlarc, an executable, a reference; 0: none"),
             cl::value_desc("K"), cl::init(0), cl::cat(category));
cl::opt<exec::Target> codeTarget("target", cl::desc("Lower for this target; executables of cuda run on the emulator"),
                                 cl::values(clEnumValN(exec::Target::Cpu, "cpu", "the CPU"),
                                            clEnumValN(exec::Target::Cuda, "cuda", "NVIDIA GPUs")),
                                 cl::init(exec::Target::Cpu), cl::cat(category));
cl::opt<std::string> packFolder("pack",
                                cl::desc("Keep the executables of forward programs for one or two devices under this folder, with inputs "
                                         "and results, and run none"),
                                cl::value_desc("DIR"), cl::cat(category));
cl::opt<bool> requireCensus("census",
                            cl::desc("Print how often each op and kind of program occurred; fail when one with a sharding rule, or a "
                                     "collective, never did, or a kind in too few seeds"),
                            cl::init(false), cl::cat(category));
cl::opt<std::string> replayFile("replay", cl::desc("Check this program instead of seeds"), cl::value_desc("FILE"), cl::cat(category));
cl::opt<bool> executable("executable", cl::desc("With --replay: compile and run it too"), cl::init(false), cl::cat(category));
cl::opt<std::string> outputFolder("output", cl::desc("Folder for reduced programs"), cl::value_desc("DIR"), cl::init("."),
                                  cl::cat(category));
cl::opt<unsigned> reducedPerKind("reduce", cl::desc("Failures of each kind and message that are reduced"), cl::init(5), cl::cat(category));
cl::opt<std::string> printSeed("print", cl::desc("Print the program of this seed and end"), cl::value_desc("SEED"), cl::cat(category));

constexpr unsigned kSecondsPerSeed = 120;

bool isExecutable(uint64_t seed) {
  return executableEvery != 0 && seed % executableEvery == 0;
}

bool isJob(uint64_t seed) {
  return jobEvery != 0 && seed % jobEvery == 0;
}

OwningOpRef<ModuleOp> programOf(MLIRContext &context, uint64_t seed) {
  ProgramOptions options;
  options.varied = true;
  options.target = codeTarget;
  return randomProgram(context, seed, options);
}

Verdict checkSeed(MLIRContext &context, uint64_t seed, Census *census) {
  if (isJob(seed)) {
    return checkJob(context, randomJob(seed));
  }
  OwningOpRef<ModuleOp> program = programOf(context, seed);
  if (!program) {
    return {FailureKind::Program, "the training passes fail"};
  }
  CheckOptions options;
  options.executable = isExecutable(seed);
  options.target = codeTarget;
  options.census = census;
  if (!packFolder.empty()) {
    options.packFolder = llvm::formatv("{0}/seed_{1}", packFolder, seed);
  }
  return checkProgram(*program, options);
}

// Returns what the command line of a replay needs beside the program.
std::string replayFlags(bool isExecutable) {
  return std::string(isExecutable ? " --executable" : "") + (codeTarget == exec::Target::Cuda ? " --target cuda" : "");
}

// A process that dies, which is what this program is for, leaves no image of its memory behind.
void leaveNoCore() {
  rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

// Keeps the files of a job: it is small, and nothing of it is left out.
void keepJob(MLIRContext &context, uint64_t seed) {
  std::string path = llvm::formatv("{0}/fuzz-failure-job-{1}", outputFolder, seed);
  (void)runIsolated([&] { return checkJob(context, randomJob(seed), path); }, kSecondsPerSeed);
  llvm::errs() << llvm::formatv("  kept in {0}; again: build/bin/ashlar-fuzz --seeds 1 --start {1} --job-every 1\n", path, seed);
}

// Whether rules of a program name module paths, which are the locations of ops.
bool namesPaths(ModuleOp program) {
  return program->hasAttr(dist::kRecomputeRulesAttr) || program->hasAttr(dist::kStageRulesAttr);
}

// Reduces the program of a seed and writes it to a file. In a process of its own: whatever fails may crash while it is reduced.
void reduceSeed(MLIRContext &context, const SeedResult &result) {
  std::string path = llvm::formatv("{0}/fuzz-failure-{1}.mlir", outputFolder, result.seed);
  std::string signature = result.verdict.signature();
  Verdict reduced = runIsolated(
      [&]() -> Verdict {
        OwningOpRef<ModuleOp> program = programOf(context, result.seed);
        CheckOptions options;
        options.executable = result.verdict.kind == FailureKind::Executable;
        options.target = codeTarget;
        auto stillFails = [&](ModuleOp module) {
          return runIsolated([&] { return checkProgram(module, options); }, kSecondsPerSeed).signature() == signature;
        };
        program = reduceProgram(*program, stillFails);
        llvm::Error error = file::writeOutput(path, [&](llvm::raw_ostream &out) {
          out << "// RUN: ashlar-fuzz --replay %s" << replayFlags(options.executable) << "\n//\n// " << result.verdict.message << "\n\n";
          program->print(out, OpPrintingFlags().enableDebugInfo(namesPaths(*program)));
          out << "\n";
        });
        std::string message = llvm::toString(std::move(error));
        return {message.empty() ? FailureKind::None : FailureKind::Program, message};
      },
      /*seconds=*/1200);
  if (reduced.ok()) {
    llvm::errs() << llvm::formatv("  reduced to {0}; again: build/bin/ashlar-fuzz --replay {0}{1}\n", path,
                                  replayFlags(result.verdict.kind == FailureKind::Executable));
  } else {
    llvm::errs() << "  not reduced: " << reduced.message << "\n";
  }
}

// Returns what should have occurred: nn ops with a sharding rule, and the collectives that partitioning makes.
std::vector<std::string> missingOps(MLIRContext &context, const Census &census) {
  std::vector<std::string> missing;
  for (StringRef dialect : {"nn", "dist"}) {
    for (RegisteredOperationName name : context.getRegisteredOperationsByDialect(dialect)) {
      bool counts = name.hasInterface<ShardingRuleOpInterface>() || name.hasInterface<dist::CollectiveOpInterface>();
      if (counts && !census.count(name.getStringRef().str())) {
        missing.push_back(name.getStringRef().str());
      }
    }
  }
  return missing;
}

// Kinds of programs in which faults were found, and the share of the seeds that has to be of each: about half of what it was on 2026-11-26.
struct Kind {
  const char *name;
  double least;
};
constexpr Kind kKinds[] = {{kFusedCensus, 0.02},      {kPipelineCensus, 0.04},   {kDeepPipelineCensus, 0.01}, {kDataHaloCensus, 0.008},
                           {kShapePairCensus, 0.004}, {kUndecidedCensus, 0.006}, {kCutMeshCensus, 0.006},     {kRepeatCensus, 0.1}};

// Returns what is wrong with a census: ops that never occurred, kinds of which there are too few.
std::vector<std::string> faultsOf(MLIRContext &context, const Census &census) {
  std::vector<std::string> faults;
  for (const std::string &name : missingOps(context, census)) {
    faults.push_back("never occurred: " + name);
  }
  for (const Kind &kind : kKinds) {
    auto found = census.find(kind.name);
    const int64_t count = found == census.end() ? 0 : found->second;
    if (const double least = kind.least * static_cast<double>(numSeeds); static_cast<double>(count) < least) {
      faults.push_back(llvm::formatv("too few: {0}: {1} of {2} seeds, not {3:f2} or more", kind.name, count, numSeeds, least));
    }
  }
  return faults;
}

// Reduces failures, up to `reducedPerKind` of each signature; keeps the files of jobs.
void reduceAll(MLIRContext &context, const Summary &summary) {
  std::vector<SeedResult> chosen = summary.failuresToReduce(reducedPerKind);
  for (const SeedResult &failure : chosen) {
    llvm::errs() << "seed " << failure.seed << ": reducing\n";
    isJob(failure.seed) ? keepJob(context, failure.seed) : reduceSeed(context, failure);
  }
  if (size_t others = summary.getFailures().size() - chosen.size()) {
    llvm::errs() << llvm::formatv("{0} more failures are like these and not reduced; --reduce takes more of each\n", others);
  }
}

int runAllSeeds(MLIRContext &context) {
  auto begin = std::chrono::steady_clock::now();
  Summary summary(startSeed, numSeeds);
  Run run{startSeed, numSeeds, numJobs, kSecondsPerSeed, leaveNoCore};
  Census census = runSeeds(
      run, [&](uint64_t seed, Census &counts) { return checkSeed(context, seed, &counts); },
      [&](const SeedResult &result) {
        summary.add(result);
        if (!result.verdict.ok()) {
          llvm::errs() << llvm::formatv("seed {0}: {1}: {2}\n", result.seed, nameOf(result.verdict.kind), result.verdict.message);
        }
      });
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  reduceAll(context, summary);
  if (requireCensus) {
    for (auto &[name, count] : census) {
      llvm::outs() << llvm::formatv("{0,-28} {1}\n", name, count);
    }
  }
  auto countOf = [&](const char *name) { return census.count(name) ? census.at(name) : 0; };
  const int64_t cut = countOf(kPipelineCensus), refused = countOf(kRefusedPipelineCensus);
  llvm::outs() << llvm::formatv("{0} pipelines cut, {1} refused: too few ops for their stages\n", cut, refused);
  std::vector<std::string> faults = requireCensus ? faultsOf(context, census) : std::vector<std::string>();
  for (const std::string &fault : faults) {
    llvm::errs() << fault << "\n";
  }
  llvm::outs() << summary.text() << llvm::formatv("; {0:f1} s\n", seconds);
  const bool onlyRefused = cut == 0 && refused > 0;
  if (onlyRefused) {
    llvm::errs() << llvm::formatv("none of {0} pipelines was cut, so none was tested\n", refused);
  }
  return summary.allPassed() && !onlyRefused && faults.empty() ? 0 : 1;
}

int replay(MLIRContext &context) {
  OwningOpRef<ModuleOp> program = parseSourceFile<ModuleOp>(replayFile, &context);
  if (!program) {
    return 1;
  }
  CheckOptions options;
  options.executable = executable;
  options.target = codeTarget;
  Verdict verdict = runIsolated([&] { return checkProgram(*program, options); }, kSecondsPerSeed);
  if (verdict.ok()) {
    llvm::outs() << llvm::formatv("passes; {0} of {1} elements undecided by rounding\n", verdict.undecided, verdict.elements);
  } else {
    llvm::errs() << llvm::formatv("error: {0}: {1}: {2}\n", replayFile, nameOf(verdict.kind), verdict.message);
  }
  return verdict.ok() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  file::prepareProcess();
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "Random programs: n ranks against one\n");
  DialectRegistry registry;
  registry.insert<dist::DistDialect, exec::ExecDialect, nn::NnDialect, arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  context.loadAllAvailableDialects();
  uint64_t seed;
  if (!StringRef(printSeed).getAsInteger(10, seed)) {
    OwningOpRef<ModuleOp> program = programOf(context, seed);
    if (program) {
      program->print(llvm::outs(), OpPrintingFlags().enableDebugInfo(namesPaths(*program)));
    }
    return program ? 0 : 1;
  }
  return replayFile.empty() ? runAllSeeds(context) : replay(context);
}

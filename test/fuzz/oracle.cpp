// SPDX-License-Identifier: Apache-2.0
//
// Before against after; see oracle.h.

#include "test/fuzz/oracle.h"

#include "compiler/pipelines/pipelines.h"
#include "compiler/reference/equivalence.h"
#include "dialects/dist/owners.h"
#include "passes/layout/decide.h"
#include "passes/layout/price.h"
#include "test/fuzz/executable.h"
#include "test/fuzz/random_program.h"
#include "test/unit/layout/partitioned.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ashlar::fuzz {

namespace {

// Keeps the first error and lets nothing through to stderr.
class FirstError {
public:
  explicit FirstError(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          if (text.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
            text = diagnostic.str();
          }
          return success();
        }) {}

  std::string text;

private:
  ScopedDiagnosticHandler handler;
};

// Returns the functions to run, in order.
SmallVector<std::string> programsOf(ModuleOp module) {
  SmallVector<std::string> names;
  for (const char *name : {"init", "forward", "train_step", "train_step", "update", "eval_step"}) {
    if (module.lookupSymbol<func::FuncOp>(name)) {
      names.push_back(name);
    }
  }
  return names;
}

void countOps(ModuleOp module, StringRef dialect, Census *census) {
  module.walk([&](Operation *op) {
    if (census && op->getName().getDialectNamespace() == dialect) {
      ++(*census)[op->getName().getStringRef().str()];
    }
  });
}

// Labels are indices below a small limit, some of them no class.
reference::EquivalenceOptions equivalenceOptions(ModuleOp before, int64_t ranksAfter) {
  reference::EquivalenceOptions options;
  options.functions = programsOf(before);
  options.intLimit = 4;
  options.ranksAfter = ranksAfter;
  return options;
}

// Compares the numbers of the two modules from the same inputs; failure when one of them cannot be run.
FailureOr<Comparison> compareRuns(ModuleOp before, ModuleOp after, const reference::EquivalenceOptions &options) {
  FailureOr<std::vector<std::vector<reference::Tensor>>> inputs = reference::randomInputs(before, options);
  if (failed(inputs)) {
    return failure();
  }
  FailureOr<reference::ModuleRun> first = reference::runModule(before, /*ranks=*/1, *inputs, options);
  FailureOr<reference::ModuleRun> second = reference::runModule(after, options.ranksAfter, *inputs, options);
  if (failed(first) || failed(second)) {
    return failure();
  }
  auto pairs = reference::pairUp(before, *first, *second);
  if (failed(pairs)) {
    return failure();
  }
  std::vector<ComparedTensor> tensors;
  for (auto [expected, computed] : *pairs) {
    tensors.push_back({expected->name, &expected->value, computed});
  }
  auto rerun = [&](const reference::Observer &observer) -> FailureOr<std::vector<reference::Tensor>> {
    FailureOr<reference::ModuleRun> moved = reference::runModule(before, /*ranks=*/1, *inputs, options, observer);
    if (failed(moved)) {
      return failure();
    }
    auto movedPairs = reference::pairUp(before, *moved, *second);
    std::vector<reference::Tensor> values;
    for (size_t i = 0; succeeded(movedPairs) && i < movedPairs->size(); ++i) {
      values.push_back((*movedPairs)[i].first->value);
    }
    return values;
  };
  return compareRounded(tensors, tolerancesOf(precisionOf(before)), rerun);
}

// Returns the difference between the two modules as a verdict. An error is the program's own fault when even one rank cannot run it.
Verdict compare(ModuleOp before, ModuleOp after, int64_t ranks, FirstError &error) {
  constexpr uint64_t kInputs = 3;
  Verdict verdict;
  for (uint64_t seed = 1; seed <= kInputs; ++seed) {
    reference::EquivalenceOptions options = equivalenceOptions(before, ranks);
    options.seed = seed;
    FailureOr<Comparison> comparison = compareRuns(before, after, options);
    if (failed(comparison)) {
      std::string message = error.text;
      bool runsAlone = succeeded(reference::compareModules(before, before, equivalenceOptions(before, /*ranksAfter=*/1)));
      return {runsAlone ? FailureKind::Run : FailureKind::Program, message};
    }
    verdict = {FailureKind::None, "", comparison->difference, comparison->elements, comparison->undecided, precisionOf(before)};
    if (!comparison->fault.empty()) {
      verdict.kind = FailureKind::Difference;
      verdict.message = comparison->fault;
      return verdict;
    }
    if (verdict.undecided <= kMaxUndecided * verdict.elements) {
      return verdict;
    }
  }
  verdict.kind = FailureKind::Undecided;
  verdict.message = llvm::formatv("rounding decides {0} of {1} elements", verdict.undecided, verdict.elements);
  return verdict;
}

// Adds the passes up to the last layout for a program with a mesh, and says on it what its links and devices cost.
pipelines::Variant addLayoutPasses(OpPassManager &passes, ModuleOp program) {
  pipelines::Variant variant = test::variantOf(program, program->hasAttr(kSplitVariablesAttr));
  if (auto modes = program->getAttrOfType<ArrayAttr>(kCommFusionModesAttr)) {
    auto mode = [&](unsigned i) { return cast<StringAttr>(modes[i]).str(); };
    variant.commFusion = {mode(0), mode(1), mode(2)};
  }
  pipelines::attachMachine(program, variant, job::Job());
  pipelines::addLayoutPasses(passes, variant, job::Job());
  if (auto split = program->getAttrOfType<DenseI64ArrayAttr>(kOptimizerParallelAttr)) {
    variant.optimizerParallel = pipelines::OptimizerParallel{split[0], split[1], split[2]};
    pipelines::addOptimizerParallelPasses(passes, variant);
  }
  if (program->hasAttr(kGroupWeightsAttr)) {
    variant.groupWeights = true;
    variant.devicesPerProcess = dist::findMesh(program).getMesh().numDevices(); // so that any number of parameters will do
  }
  return variant;
}

// Prices the layouts that inference left; failure, with an error, where nothing can be decided.
FailureOr<layout::Price> priceLayouts(ModuleOp inferred) {
  dist::MeshOp mesh = dist::findMesh(inferred);
  FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(inferred, mesh.getMesh());
  if (failed(problem)) {
    return failure();
  }
  dist::Planner planner(mesh);
  FailureOr<layout::Assignment> assignment = layout::decide(*problem, planner);
  if (failed(assignment)) {
    return failure();
  }
  return layout::price(*problem, *assignment, planner, dist::findDeviceRates(inferred));
}

// Takes the fusion ids off the parameters. Returns whether there were any.
bool dropFusionIds(ModuleOp program) {
  bool hadIds = false;
  for (auto variable : program.getOps<nn::VariableOp>()) {
    hadIds |= static_cast<bool>(variable->removeAttr(dist::kCommFusionAttr));
  }
  return hadIds;
}

// Compares what the programs send by their price with what they send once they are partitioned; returns what differs.
std::string comparePrice(ModuleOp partitioned, const layout::Price &price) {
  for (auto [function, priced] : llvm::zip_equal(partitioned.getOps<func::FuncOp>(), price.programs)) {
    int64_t sent = 0;
    function.walk(
        [&](dist::CollectiveOpInterface op) { sent += dist::getOwner(op) ? 0 : dist::collectiveBytes(op); }); // no layout sends those
    if (sent != priced.bytesSent) {
      return llvm::formatv("@{0} sends {1} bytes, its price says {2}", function.getName(), sent, priced.bytesSent);
    }
  }
  return "";
}

} // namespace

StringRef nameOf(FailureKind kind) {
  constexpr StringLiteral kNames[] = {"none",  "program",    "passes",    "price", "run",    "difference",
                                      "lower", "executable", "undecided", "crash", "timeout"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Verdict::signature() const {
  std::string text = nameOf(kind).str() + ": ";
  if (kind == FailureKind::Difference || kind == FailureKind::Undecided) {
    return text;
  }
  bool quoted = false;
  for (char c : StringRef(message).take_until([](char c) { return c == '\n'; })) {
    quoted ^= c == '"' || c == '\'';
    if (!quoted && (isalpha(c) || c == ' ')) {
      text += c;
    }
  }
  return text.substr(0, 80);
}

void addDistPasses(OpPassManager &passes, ModuleOp program) {
  pipelines::addDistPasses(passes, addLayoutPasses(passes, program));
}

Verdict checkProgram(ModuleOp program, const CheckOptions &options) {
  FirstError error(program.getContext());
  dist::MeshOp mesh = dist::findMesh(program);
  if (!mesh || failed(verify(program))) {
    return {FailureKind::Program, mesh ? error.text : "no dist.mesh"};
  }
  if (programsOf(program).empty()) {
    return {FailureKind::Program, "no function to run: neither @forward nor @init, @train_step or @eval_step"};
  }
  countOps(program, "nn", options.census);
  OwningOpRef<ModuleOp> after = program.clone();
  PassManager layout(program.getContext()), dist(program.getContext());
  std::optional<layout::Price> price;
  if (options.addPasses) {
    options.addPasses(dist, *after);
  } else {
    pipelines::addDistPasses(dist, addLayoutPasses(layout, *after));
    FailureOr<layout::Price> priced = failure();
    if (failed(layout.run(*after)) || failed(priced = priceLayouts(*after))) {
      return {FailureKind::Passes, error.text};
    }
    price = std::move(*priced);
  }
  if (failed(dist.run(*after))) {
    OwningOpRef<ModuleOp> other = program.clone();
    bool isCycle = StringRef(error.text).contains("give the two parameters different ids"); // as random ids may ask for
    return isCycle && dropFusionIds(*other) ? checkProgram(*other, options) : Verdict{FailureKind::Passes, error.text};
  }
  if (std::string fault = price ? comparePrice(*after, *price) : ""; !fault.empty()) {
    return {FailureKind::Price, fault};
  }
  countOps(*after, "dist", options.census);
  after->walk([&](dist::CollectiveOpInterface op) {
    if (options.census && op->getNumOperands() > 1) {
      ++(*options.census)[kFusedCensus];
    }
  });
  Verdict verdict = compare(program, *after, mesh.getMesh().numDevices(), error);
  if (!verdict.ok() || !(options.lower || options.executable)) {
    return verdict;
  }
  PassManager lower(program.getContext());
  pipelines::Variant variant;
  variant.name = "default";
  variant.target = options.target;
  pipelines::addLowerPasses(lower, variant);
  if (failed(lower.run(*after))) {
    return {FailureKind::Lower, error.text};
  }
  if (options.executable) {
    if (std::string fault = checkExecutable(program, *after, options.target, options.packFolder); !fault.empty()) {
      return {FailureKind::Executable, fault};
    }
  }
  return verdict;
}

} // namespace ashlar::fuzz

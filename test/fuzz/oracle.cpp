// SPDX-License-Identifier: Apache-2.0
//
// Before against after; see oracle.h.

#include "test/fuzz/oracle.h"

#include "compiler/pipelines/pipelines.h"
#include "compiler/reference/equivalence.h"
#include "dialects/support/element_type.h"
#include "test/fuzz/executable.h"
#include "test/fuzz/random_program.h"

#include "mlir/IR/AttrTypeSubElements.h"
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
  for (const char *name : {"init", "forward", "train_step", "train_step", "eval_step"}) {
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

bool computesIn(ModuleOp program, function_ref<bool(Type)> isSuch) {
  return program
      .walk([&](Operation *op) {
        auto has = [&](Type type) { return isSuch(cast<ShapedType>(type).getElementType()); };
        return isa<func::FuncOp, ModuleOp>(op) || llvm::none_of(op->getResultTypes(), has) ? WalkResult::advance()
                                                                                           : WalkResult::interrupt();
      })
      .wasInterrupted();
}

// Returns the program with f32 in the place of bf16 and f16.
OwningOpRef<ModuleOp> inF32(ModuleOp program) {
  OwningOpRef<ModuleOp> wide = program.clone();
  Type f32 = Float32Type::get(program.getContext());
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FloatType type) -> std::optional<Type> { return isNarrowFloat(type) ? f32 : std::optional<Type>(); });
  replacer.addReplacement([&](DenseFPElementsAttr elements) -> std::optional<Attribute> {
    if (!isNarrowFloat(elements.getElementType())) {
      return std::nullopt;
    }
    return elements.mapValues(f32, [](APFloat value) {
      bool losesInfo = false;
      value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
      return value.bitcastToAPInt();
    });
  });
  replacer.recursivelyReplaceElementsIn(*wide, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
  return wide;
}

// Returns the difference between the two modules as a verdict. An error is the program's own fault when even one rank cannot run it.
Verdict compare(ModuleOp before, ModuleOp after, int64_t ranks, FirstError &error) {
  FailureOr<double> difference = reference::compareModules(before, after, equivalenceOptions(before, ranks));
  if (succeeded(difference)) {
    if (*difference <= toleranceOf(before)) { // false for a NaN too
      return {FailureKind::None, "", *difference};
    }
    return {FailureKind::Difference, llvm::formatv("largest difference {0:e}", *difference), *difference};
  }
  std::string message = error.text;
  bool runsAlone = succeeded(reference::compareModules(before, before, equivalenceOptions(before, /*ranksAfter=*/1)));
  return {runsAlone ? FailureKind::Run : FailureKind::Program, message};
}

} // namespace

double toleranceOf(ModuleOp program) {
  if (!computesIn(program, isNarrowFloat)) {
    return computesIn(program, [](Type type) { return type.isF32(); }) ? kTolerance32 : kTolerance;
  }
  constexpr double kRoundings = 4;
  FailureOr<double> own = reference::compareModules(program, *inF32(program), equivalenceOptions(program, /*ranksAfter=*/1));
  return succeeded(own) ? kTolerance16 + kRoundings * *own : kTolerance16;
}

StringRef nameOf(FailureKind kind) {
  constexpr StringLiteral kNames[] = {"none", "program", "passes", "run", "difference", "lower", "executable", "crash"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Verdict::signature() const {
  std::string text = nameOf(kind).str() + ": ";
  if (kind == FailureKind::Difference) {
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
  pipelines::Variant variant;
  variant.name = "default";
  variant.inferParameters = program->hasAttr(kSplitVariablesAttr);
  dist::MeshAttr mesh = dist::findMesh(program).getMesh();
  for (auto [axis, size] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes())) {
    variant.mesh.push_back((axis.getValue() + "=" + Twine(size)).str());
  }
  pipelines::addLayoutPasses(passes, variant, job::Job());
  pipelines::addDistPasses(passes, variant);
}

Verdict checkProgram(ModuleOp program, const CheckOptions &options) {
  FirstError error(program.getContext());
  dist::MeshOp mesh = dist::findMesh(program);
  if (!mesh || failed(verify(program))) {
    return {FailureKind::Program, mesh ? error.text : "no dist.mesh"};
  }
  countOps(program, "nn", options.census);
  OwningOpRef<ModuleOp> after = program.clone();
  PassManager dist(program.getContext());
  options.addPasses ? options.addPasses(dist, program) : addDistPasses(dist, program);
  if (failed(dist.run(*after))) {
    return {FailureKind::Passes, error.text};
  }
  countOps(*after, "dist", options.census);
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

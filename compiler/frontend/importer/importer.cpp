// SPDX-License-Identifier: Apache-2.0
//
// The order of an import, and what concerns the whole model: opsets, merged and frozen parameters, annotations.

#include "compiler/frontend/importer/importer.h"

#include "compiler/frontend/annotations/annotations.h"
#include "compiler/frontend/body.h"
#include "compiler/frontend/exporter_notes.h"
#include "compiler/frontend/folding/stored_constants.h"
#include "compiler/frontend/graph_inputs.h"
#include "compiler/frontend/onnx_file.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"
#include "compiler/frontend/weights/initializers.h"
#include "compiler/frontend/weights/merged_initializers.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/flat_repeats.h"
#include "dialects/nn/repeat/repeats.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr int64_t kOldestOpset = 7;  // before it, broadcasting was an attribute
constexpr int64_t kNewestOpset = 28; // of ONNX 1.23; what a later one changes in an op is not known here

bool isDefaultDomain(StringRef domain) {
  return domain.empty() || domain == "ai.onnx";
}

int64_t findOpset(const onnx::ModelProto &model) {
  std::vector<std::string> others;
  for (const onnx::OperatorSetIdProto &opset : model.opset_import()) {
    if (!isDefaultDomain(opset.domain())) {
      others.push_back(opset.domain() + " " + std::to_string(opset.version()));
      continue;
    }
    if (opset.version() < kOldestOpset) {
      throw ImportError("opset " + Twine(opset.version()) + " but the oldest supported is " + Twine(kOldestOpset) +
                        "; convert the model with ONNX's version converter");
    }
    if (opset.version() > kNewestOpset) {
      throw ImportError("opset " + Twine(opset.version()) + " but the newest known is " + Twine(kNewestOpset) +
                        "; export the model with that one, or convert it with ONNX's version converter");
    }
    return opset.version();
  }
  if (!others.empty()) {
    throw ImportError("imports the opset of no domain but " + llvm::join(others, ", ") +
                      "; only models that import one of the default domain, ai.onnx, are supported");
  }
  throw ImportError("not an ONNX model: it names no opset");
}

// Throws unless the model means the version of our own domain that we know.
void checkOwnDomain(const onnx::ModelProto &model) {
  constexpr int64_t kVersion = 1;
  for (const onnx::OperatorSetIdProto &opset : model.opset_import()) {
    if (opset.domain() == kCollectiveDomain && opset.version() != kVersion) {
      throw ImportError("domain " + llvm::Twine(kCollectiveDomain) + " has version " + Twine(opset.version()) + " but only version " +
                        Twine(kVersion) + " is supported");
    }
  }
}

// Why a job with a loss has nothing to train. `frozen`: how many parameters that would be trained each glob of options.frozen names.
std::string nothingTrained(ArrayRef<std::pair<std::string, size_t>> frozen) {
  size_t count = 0;
  std::string globs;
  for (const auto &[glob, own] : frozen) {
    count += own;
    globs += (globs.empty() ? "\"" : ", \"") + glob + "\"" + (frozen.size() == 1 ? "" : " (" + std::to_string(own) + ")");
  }
  if (count == 0) {
    return "nothing is trained: the model has no parameter; name initializers in the job's trained, or inputs in its init rules";
  }
  return "nothing is trained: frozen " + globs + " names all parameters, " + std::to_string(count) +
         "; leave trained parameters out of the job's frozen";
}

} // namespace

Importer::Importer(StringRef path, const ImportOptions &options, MLIRContext *context)
    : path(path), options(options), context(context), builder(context), proto(readModelFile(path)), graph(*proto->mutable_graph()),
      rules(options), info{options,
                           rules,
                           llvm::sys::path::parent_path(path).str(),
                           findOpset(*proto),
                           budget,
                           draws,
                           counted,
                           loops,
                           storedInitializers(graph),
                           isByTorch(*proto),
                           [this](std::vector<onnx::NodeProto> nodes) { importBody(std::move(nodes)); }} {}

// Takes the parameters that options.frozen names out of training. Running statistics may be among them: their handler has looked.
void Importer::freezeParameters() {
  llvm::MapVector<StringRef, nn::VariableOp> parts;
  NameTable names;
  for (auto variable : module->getOps<nn::VariableOp>()) {
    if (!variable.getInternal()) {
      parts.insert({variable.getSymName(), variable});
      names.add(NameKind::Parameter, variable.getSymName());
    }
  }
  rules.checkFrozen(names);
  SmallVector<std::pair<std::string, size_t>> frozen;
  for (const std::string &glob : options.frozen) {
    frozen.push_back({glob, 0});
    for (StringRef name : names.match(NameKind::Parameter, glob)) {
      nn::VariableOp variable = parts.lookup(name);
      frozen.back().second += variable.getTrainable();
      variable.setTrainable(false);
    }
  }
  if (options.needsParameters && !options.facts && llvm::none_of(parts, [](auto &part) { return part.second.getTrainable(); })) {
    throw ImportError(nothingTrained(frozen));
  }
}

// What the handlers leave to the ops' own verifiers (a root of integers, say) becomes an error like any other.
void Importer::verifyModule() {
  std::string message;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (message.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      message = "node \"" + nn::getPath(diagnostic.getLocation()).str() + "\": " + diagnostic.str();
    }
    return success();
  });
  if (failed(verify(*module))) {
    throw ImportError(message);
  }
}

// Makes rules of the annotations that the job chose.
void Importer::applyAnnotations() {
  if (options.annotations) {
    (*module)->setAttr(dist::kRulesAttr, readAnnotations(*proto, path, *options.annotations, *values));
  } else if (std::vector<std::string> names = deviceConfigurations(*proto); !names.empty()) {
    emitWarning(UnknownLoc::get(context)) << path
                                          << ": its multi-device annotations are not used; name one of its device configurations in "
                                          << "the job: device_configuration: \"" << llvm::join(names, "\" or \"") << "\"";
  }
}

void Importer::untie() {
  checkDataFiles(graph, info);
  std::vector<MergedParameter> merged = untieInitializers(*proto, options, rules, info.directory, context, edits);
  if (options.facts) {
    options.facts->merged = std::move(merged);
    return;
  }
  constexpr size_t kShown = 4;
  std::vector<std::string> lines;
  size_t parts = 0;
  for (const MergedParameter &each : merged) {
    parts += each.isUntied ? each.others.size() : 0;
    if (each.isUntied && lines.size() < kShown) {
      lines.push_back("\"" + each.initializer + "\" is \"" + each.others.front() + "\", too" +
                      (each.others.size() > 1 ? ", and " + std::to_string(each.others.size() - 1) + " more" : ""));
    }
  }
  if (options.training && parts > 0) {
    emitRemark(UnknownLoc::get(context)) << inOneLine((path + ": the exporter merged parameters that were equal; " + Twine(parts) +
                                                       " of them are parameters of their own again: " + llvm::join(lines, "; ") +
                                                       "; untie: NEVER in the job keeps them merged, --inspect lists them")
                                                          .str());
  }
}

// Puts the ops of the branches of each If into its repeats.
void Importer::nestBranches() {
  if (loops > 0) {
    nn::visitBlocks(forward.front(), [](Block &block) {
      if (nn::hasFlatRepeats(block) && failed(nn::nestRepeats(block))) {
        llvm_unreachable("only results of an If read values of its branches");
      }
    });
  }
}

void Importer::freeNames() {
  nn::setProgram(forward, nn::ProgramRole::Run);
  if (dist::MeshOp mesh = dist::findMesh(*module)) {
    mesh.setSymName(nn::freeSymbol(*module, mesh.getSymName(), mesh));
  }
}

OwningOpRef<ModuleOp> Importer::run() {
  checkOwnDomain(*proto);
  untie();
  inlineFunctions(*proto);
  std::string unsupported = findUnsupportedNodes();
  StringRef name = modelNameOf(graph, path);
  module = ModuleOp::create(NameLoc::get(builder.getStringAttr(name)), name);
  builder.setInsertionPointToEnd(module->getBody());
  if (options.local) {
    dist::MeshOp::create(builder, module->getLoc(), "mesh", options.local->mesh);
  }
  forward = nn::createProgram(builder, module->getLoc(), nn::ProgramRole::Run, builder.getFunctionType({}, {}));
  builder.setInsertionPointToEnd(forward.addEntryBlock());
  values = std::make_unique<GraphValues>(forward, builder);
  try {
    parameters = defineInitializers(*proto, path, info, *values, edits,
                                    [this](StringRef name, RankedTensorType type) { return wholeType(name, type); });
    checkGivenInputs(graph, options);
    defineInputs();
    rules.checkInit(parameters);
    rules.checkTrained(parameters);
    checkBatch();
    importNodes();
  } catch (const ImportError &error) {
    faults.push_back(error.what());
  }
  reportFaults(unsupported);
  checkLoss();
  returnOutputs();
  freezeParameters();
  applyAnnotations();
  freeNames();
  nestBranches();
  verifyModule();
  edits.attachTo(*module);
  return std::move(module);
}

} // namespace ashlar::frontend

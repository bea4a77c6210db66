// SPDX-License-Identifier: Apache-2.0
//
// Strategy -> module. Everything is matched by name and compared by type, so that a strategy of another model is refused instead of fitting
// by chance.

#include "compiler/strategy/op_names.h"
#include "compiler/strategy/strategy.h"

#include "dialects/dist/plain_text.h"
#include "dialects/nn/nn.h"
#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/rules/layout_text.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;

namespace ashlar::strategy {

#define GEN_PASS_DEF_APPLYSTRATEGYPASS
#include "compiler/strategy/passes.h.inc"

namespace {

using Tensor = job::Strategy::Tensor;

// How errors end: all of them have one reason.
constexpr llvm::StringLiteral kRemedy = "; the strategy was saved for another model or job: save it again by --save-strategy";

// Writes a strategy into a module. State: the parts of axes that the strategy names, and what the first difference was.
class Application {
public:
  Application(ModuleOp module, const job::Strategy &strategy) : module(module), strategy(strategy), context(module.getContext()) {}

  LogicalResult run() {
    if (failed(refineMesh()) || failed(applyVariables())) {
      return failure();
    }
    std::map<std::string, const job::Strategy::Program *> programs;
    for (const job::Strategy::Program &program : strategy.programs()) {
      programs[program.name()] = &program;
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      const job::Strategy::Program *program = std::exchange(programs[function.getName().str()], nullptr);
      if (!program) {
        return differ() << "has no program @" << function.getName() << ", which the model has" << kRemedy;
      }
      if (failed(applyProgram(function, *program))) {
        return failure();
      }
    }
    for (const auto &[name, program] : programs) {
      if (program) {
        return differ() << "has a program @" << name << ", which the model does not have" << kRemedy;
      }
    }
    return success();
  }

private:
  InFlightDiagnostic differ() { return emitError(UnknownLoc::get(context)) << "the strategy "; }

  static std::string meshText(const job::Mesh &mesh) {
    return llvm::join(llvm::map_range(mesh.axes(), [](const auto &axis) { return axis.name() + "=" + std::to_string(axis.size()); }), ",");
  }

  static std::string meshText(dist::MeshAttr mesh) {
    return llvm::join(llvm::map_range(llvm::zip_equal(mesh.getAxes(), mesh.getSizes()),
                                      [](auto axis) { return std::get<0>(axis).str() + "=" + std::to_string(std::get<1>(axis)); }),
                      ",");
  }

  // Cuts the axes of the job's mesh that the strategy has in parts.
  LogicalResult refineMesh() {
    dist::MeshAttr mesh = dist::findMesh(module).getMesh();
    analysis::MeshRefinement refinement(mesh);
    auto refuse = [&]() -> InFlightDiagnostic {
      return differ() << "is for mesh " << meshText(strategy.mesh()) << " but the job's mesh is " << meshText(mesh)
                      << "; compile for the strategy's mesh: ";
    };
    for (const job::Mesh::Axis &axis : strategy.mesh().axes()) {
      FailureOr<SmallVector<layout::DimSplit>> part = layout::parseLayoutText("[{" + axis.name() + "}]", refuse);
      if (failed(part) || failed(refinement.cut(part->front().axes.front(), refuse))) {
        return failure();
      }
    }
    if (failed(refinement.check(refuse))) {
      return failure();
    }
    if (meshText(refinement.refinedMesh()) != meshText(strategy.mesh())) {
      return differ() << "is for mesh " << meshText(strategy.mesh()) << " but the job's mesh is " << meshText(mesh)
                      << "; compile for the strategy's mesh, or save a strategy for this one";
    }
    refinement.apply(module);
    return success();
  }

  // Returns the layout of a tensor of the strategy; `what` is "variable @w".
  FailureOr<dist::LayoutAttr> parseLayout(const std::string &text, Type type, const std::string &what) {
    auto refuse = [&]() -> InFlightDiagnostic { return differ() << "gives " << what << " a wrong layout: "; };
    FailureOr<SmallVector<layout::DimSplit>> dims = layout::parseLayoutText(text, refuse);
    if (failed(dims)) {
      return failure();
    }
    if (static_cast<int64_t>(dims->size()) != cast<RankedTensorType>(type).getRank()) {
      return refuse() << text << " is of rank " << dims->size() << " but the tensor has type " << dist::typeText(type)
                      << "; give one pair of braces a dim";
    }
    dist::Layout layout;
    for (const layout::DimSplit &dim : *dims) {
      layout.dims.emplace_back();
      for (const analysis::AxisPart &part : dim.axes) {
        auto axis = StringAttr::get(context, part.toString());
        if (layout.uses(axis)) {
          return refuse() << text << " uses axis " << axis << " twice; an axis splits one dim, once";
        }
        layout.dims.back().push_back(axis);
      }
    }
    return dist::LayoutAttr::get(context, layout);
  }

  // Checks that an argument or result of the strategy has the name it has in the model.
  LogicalResult matchName(const Tensor &tensor, StringAttr name, const std::string &what) {
    StringRef expected = name ? name.getValue() : StringRef();
    if (tensor.name() == expected) {
      return success();
    }
    return differ() << "has " << what << " named \"" << tensor.name() << "\", in the model it is \"" << expected << "\"" << kRemedy;
  }

  // Checks that a tensor of the strategy is that of the model, and returns its layout.
  FailureOr<dist::LayoutAttr> match(const Tensor &tensor, Type type, const std::string &what) {
    if (tensor.type() != dist::typeText(type)) {
      return differ() << "has " << what << " with type " << tensor.type() << ", the model has it with " << dist::typeText(type) << kRemedy;
    }
    return parseLayout(tensor.layout(), type, what);
  }

  LogicalResult applyVariables() {
    std::map<std::string, const Tensor *> saved;
    for (const Tensor &tensor : strategy.variables()) {
      saved[tensor.name()] = &tensor;
    }
    for (auto variable : module.getOps<nn::VariableOp>()) {
      std::string name = variable.getSymName().str();
      const Tensor *tensor = std::exchange(saved[name], nullptr);
      if (!tensor) {
        return differ() << "has no variable @" << name << ", which the model has" << kRemedy;
      }
      FailureOr<dist::LayoutAttr> layout = match(*tensor, variable.getTensorType(), "variable @" + name);
      if (failed(layout)) {
        return failure();
      }
      variable->setAttr(dist::kLayoutAttr, *layout);
      variable->setAttr(dist::kOriginAttr, originsOf(*tensor));
    }
    for (const auto &[name, tensor] : saved) {
      if (tensor) {
        return differ() << "has a variable @" << name << ", which the model does not have" << kRemedy;
      }
    }
    return success();
  }

  LogicalResult applyProgram(func::FuncOp function, const job::Strategy::Program &program) {
    layout::copySources(function); // a strategy knows one constant a use
    std::string of = " of @" + function.getName().str();
    if (program.arguments_size() != static_cast<int>(function.getNumArguments()) ||
        program.results_size() != static_cast<int>(function.getNumResults())) {
      return differ() << "has " << program.arguments_size() << " arguments and " << program.results_size() << " results" << of
                      << ", the model has " << function.getNumArguments() << " and " << function.getNumResults() << kRemedy;
    }
    for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
      const Tensor &tensor = program.arguments(index);
      std::string what = "argument " + std::to_string(index) + of;
      FailureOr<dist::LayoutAttr> layout = match(tensor, type, what);
      if (failed(layout) || failed(matchName(tensor, function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr), what))) {
        return failure();
      }
      function.setArgAttr(index, dist::kLayoutAttr, *layout);
      function.setArgAttr(index, dist::kOriginAttr, originsOf(tensor));
    }
    for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
      const Tensor &tensor = program.results(index);
      std::string what = "result " + std::to_string(index) + of;
      FailureOr<dist::LayoutAttr> layout = match(tensor, type, what);
      if (failed(layout) || failed(matchName(tensor, function.getResultAttrOfType<StringAttr>(index, nn::kNameAttr), what))) {
        return failure();
      }
      function.setResultAttr(index, dist::kLayoutAttr, *layout);
      function.setResultAttr(index, dist::kOriginAttr, originsOf(tensor));
    }
    return applyOps(function, program, of);
  }

  LogicalResult applyOps(func::FuncOp function, const job::Strategy::Program &program, const std::string &of) {
    std::map<std::tuple<std::string, std::string, int64_t>, const job::Strategy::Op *> saved;
    for (const job::Strategy::Op &op : program.ops()) {
      saved[{op.path(), op.kind(), op.ordinal()}] = &op;
    }
    for (const auto &[op, name] : nameOps(function)) {
      std::string what = describe(name.path, name.kind, name.ordinal) + of;
      const job::Strategy::Op *found = std::exchange(saved[{name.path, name.kind, name.ordinal}], nullptr);
      if (!found || found->results_size() != static_cast<int>(op->getNumResults())) {
        return differ() << "has no " << what << ", which the model has" << kRemedy;
      }
      if (failed(applyOp(op, *found, what))) {
        return failure();
      }
    }
    for (const auto &[key, op] : saved) {
      if (op) {
        return differ() << "has " << describe(op->path(), op->kind(), op->ordinal()) << of << ", which the model does not have" << kRemedy;
      }
    }
    return success();
  }

  // Returns where the layout of a tensor came from, as ashlar-propagate-layouts says it.
  ArrayAttr originsOf(const Tensor &tensor) {
    Builder builder(context);
    auto optional = [&](const std::string &text) { return text.empty() ? StringAttr() : builder.getStringAttr(text); };
    SmallVector<Attribute> origins;
    for (const job::Strategy::Origin &origin : tensor.origins()) {
      origins.push_back(dist::OriginAttr::get(context, builder.getStringAttr(origin.source()), optional(origin.axis()),
                                              optional(origin.path()), optional(origin.op())));
    }
    return builder.getArrayAttr(origins);
  }

  // "fc1 (nn.matmul)", "fc1 (nn.matmul number 2)".
  static std::string describe(StringRef path, StringRef kind, int64_t ordinal) {
    std::string number = ordinal == 0 ? "" : " number " + std::to_string(ordinal + 1);
    return path.empty() ? kind.str() + number : (path + " (" + kind + number + ")").str();
  }

  LogicalResult applyOp(Operation *op, const job::Strategy::Op &saved, const std::string &what) {
    SmallVector<Attribute> layouts, origins, operands;
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), saved.results())) {
      FailureOr<dist::LayoutAttr> layout = match(tensor, result.getType(), what);
      if (failed(layout)) {
        return failure();
      }
      layouts.push_back(*layout);
      origins.push_back(originsOf(tensor));
    }
    op->setAttr(dist::kLayoutsAttr, ArrayAttr::get(context, layouts));
    op->setAttr(dist::kOriginsAttr, ArrayAttr::get(context, origins));
    if (saved.operands().empty()) {
      return success();
    }
    if (saved.operands_size() != static_cast<int>(op->getNumOperands())) {
      return differ() << "has " << what << " with " << saved.operands_size() << " operands, the model has it with " << op->getNumOperands()
                      << kRemedy;
    }
    for (auto [text, operand] : llvm::zip_equal(saved.operands(), op->getOperands())) {
      FailureOr<dist::LayoutAttr> layout =
          text.empty() ? FailureOr<dist::LayoutAttr>(dist::LayoutAttr()) : parseLayout(text, operand.getType(), what);
      if (failed(layout)) {
        return failure();
      }
      operands.push_back(*layout ? Attribute(*layout) : Attribute(UnitAttr::get(context)));
    }
    op->setAttr(dist::kOperandLayoutsAttr, ArrayAttr::get(context, operands));
    return success();
  }

  ModuleOp module;
  const job::Strategy &strategy;
  MLIRContext *context;
};

struct ApplyStrategyPass : public impl::ApplyStrategyPassBase<ApplyStrategyPass> {
  using ApplyStrategyPassBase::ApplyStrategyPassBase;
  explicit ApplyStrategyPass(const job::Strategy &strategy) : strategy(strategy) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (strategy) {
      return success();
    }
    llvm::Expected<job::Job> loaded = loadStrategy(file);
    if (!loaded) {
      return emitError(UnknownLoc::get(context)) << llvm::toString(loaded.takeError());
    }
    strategy = loaded->strategy();
    return success();
  }

  void runOnOperation() override {
    if (failed(applyStrategy(getOperation(), *strategy))) {
      signalPassFailure();
    }
  }

private:
  std::optional<job::Strategy> strategy; // that of the option, once it is read
};

} // namespace

LogicalResult applyStrategy(ModuleOp module, const job::Strategy &strategy) {
  return Application(module, strategy).run();
}

std::unique_ptr<Pass> createApplyStrategyPass(const job::Strategy &strategy) {
  return std::make_unique<ApplyStrategyPass>(strategy);
}

} // namespace ashlar::strategy

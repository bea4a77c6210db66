// SPDX-License-Identifier: Apache-2.0
//
// Giving layouts, and estimating what follows.

#include "passes/search/strategies.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/phases.h"
#include "dialects/nn/programs.h"
#include "passes/analysis/step_runs.h"
#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/inference/given_attributes.h"
#include "passes/layout/inference/inference.h"

#include "llvm/ADT/BitVector.h"

#include <map>

using namespace mlir;

namespace ashlar::search {

SmallVector<WeightedProgram> programsOfStep(ModuleOp module) {
  SmallVector<WeightedProgram> programs;
  const llvm::StringMap<int64_t> runs = analysis::runsOfStep(module);
  for (auto [number, function] : llvm::enumerate(module.getOps<func::FuncOp>())) {
    if (int64_t count = runs.lookup(function.getName())) {
      programs.push_back({static_cast<unsigned>(number), count});
    }
  }
  return programs;
}

std::optional<Prediction> predict(ModuleOp module, layout::Inferred &inferred, analysis::Planner &planner) {
  FailureOr<layout::Estimate> estimate = layout::estimateInferred(module, inferred, planner);
  if (failed(estimate)) {
    return std::nullopt;
  }
  Prediction prediction;
  for (const WeightedProgram &weighted : programsOfStep(module)) {
    const layout::ProgramEstimate &program = estimate->programs[weighted.program];
    prediction.stepPs += program.timePs() * weighted.runs;
  }
  prediction.parameterBytes = estimate->parameterBytes;
  prediction.stateBytes = estimate->stateBytes;
  prediction.inputOutputBytes = estimate->inputOutputBytes;
  prediction.memoryBytes = estimate->memoryBytes();
  const int64_t always = prediction.parameterBytes + prediction.stateBytes + prediction.inputOutputBytes;
  for (const layout::ProgramEstimate &program : estimate->programs) {
    prediction.programBytes.push_back(always + program.peakBytes);
  }
  prediction.valueBytes = prediction.memoryBytes - estimate->parameterBytes - estimate->stateBytes - estimate->inputOutputBytes;
  return prediction;
}

std::optional<Prediction> predict(OwningOpRef<ModuleOp> given, analysis::Planner &planner) {
  ScopedDiagnosticHandler quiet(given->getContext(), [](Diagnostic &) { return success(); });
  FailureOr<layout::Inferred> inferred = layout::inferLayouts(*given, /*splitVariables=*/true);
  return failed(inferred) ? std::nullopt : predict(*given, *inferred, planner);
}

int64_t predictionUnits(ModuleOp given) {
  constexpr int64_t kUnitsOfOp = 30000; // inferred and estimated
  int64_t ops = 0;
  given.walk([&](Operation *) { ++ops; });
  return kUnitsOfOp * ops;
}

std::optional<Choices> encodeInferred(const LayoutGraph &graph, ModuleOp given) {
  OwningOpRef<ModuleOp> copy = given.clone();
  llvm::for_each(copy->getOps<func::FuncOp>(), layout::copySources);
  FailureOr<layout::LayoutProblem> problem = layout::LayoutProblem::create(*copy, dist::findMesh(*copy).getMesh());
  if (failed(problem)) {
    return std::nullopt;
  }
  layout::Inference inference(*problem);
  inference.run();
  for (auto [number, tensor] : llvm::enumerate(problem->tensors)) {
    tensor.given = layout::GivenLayout{inference.getLayout(number), SmallVector<bool>(tensor.type.getRank(), false)};
  }
  return graph.encode(*problem);
}

void giveLayouts(const layout::LayoutProblem &problem, const DecidedLayouts &decided) {
  MLIRContext *context = problem.mesh.getContext();
  Builder builder(context);
  auto origin = builder.getArrayAttr(dist::OriginAttr::get(context, builder.getStringAttr("the search"), {}, {}, {}));
  auto give = [&](const layout::TensorRef &tensor, dist::LayoutAttr layout) {
    layout::writeGiven(tensor, {layout, builder.getDenseI64ArrayAttr({}), 0, origin});
  };
  auto isOpen = [&](unsigned tensor) { return decided.tensors[tensor] && !problem.tensors[tensor].given; };
  for (auto [variable, tensor] : problem.variables) {
    if (isOpen(tensor)) {
      give({layout::TensorRef::Variable, variable}, decided.tensors[tensor]);
    }
  }
  for (const layout::ProblemProgram &program : problem.programs) {
    func::FuncOp function = program.function;
    for (BlockArgument argument : function.getArguments()) {
      if (unsigned tensor = problem.values[problem.find(argument)].tensor; isOpen(tensor)) {
        give({layout::TensorRef::Argument, function, argument.getArgNumber()}, decided.tensors[tensor]);
      }
    }
    for (unsigned index = 0; index < function.getNumResults(); ++index) {
      if (unsigned tensor = problem.resultTensor(program, index); isOpen(tensor)) {
        give({layout::TensorRef::FunctionResult, function, index}, decided.tensors[tensor]);
      }
    }
  }
  for (const layout::ProblemProgram &program : problem.programs) {
    nn::Phases phases(func::FuncOp(program.function).front());
    for (unsigned number = program.firstOp; number < program.endOp; ++number) {
      const layout::ProblemOp &op = problem.ops[number];
      if (phases.of(op.op) == nn::Phase::Update) {
        continue;
      }
      for (auto [index, value] : llvm::enumerate(op.results)) {
        if (unsigned tensor = problem.values[value].tensor; !op.variable && isOpen(tensor)) {
          give({layout::TensorRef::OpResult, op.op, static_cast<unsigned>(index)}, decided.tensors[tensor]);
        }
      }
      for (auto [index, layout] : llvm::enumerate(decided.operands[number])) {
        if (layout && !op.taken[index]) {
          give({layout::TensorRef::Operand, op.op, static_cast<unsigned>(index)}, layout);
        }
      }
    }
  }
}

OwningOpRef<ModuleOp> copyStep(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = module.clone();
  SmallVector<func::FuncOp> functions(copy->getOps<func::FuncOp>());
  llvm::BitVector isKept(functions.size());
  for (const WeightedProgram &weighted : programsOfStep(module)) {
    isKept.set(weighted.program);
  }
  for (auto [number, function] : llvm::enumerate(functions)) {
    if (!isKept[number] && isKept.any()) {
      function.erase();
    }
  }
  return copy;
}

// Ops by module path and kind, in the order of the program.
using OpsByPlace = std::map<std::pair<StringRef, StringRef>, SmallVector<Operation *>>;

// Returns the ops of the forward pass but constants, and what is made of one scalar: layout::copySources() copies them for each use.
static OpsByPlace forwardOps(func::FuncOp function) {
  OpsByPlace ops;
  nn::Phases phases(function.front());
  for (Operation &op : function.front().without_terminator()) {
    const bool isSource = llvm::all_of(op.getOperandTypes(), [](Type type) { return cast<RankedTensorType>(type).getRank() == 0; });
    if (!isSource && phases.of(&op) == nn::Phase::Forward) {
      ops[{nn::getPath(op.getLoc()), op.getName().getStringRef()}].push_back(&op);
    }
  }
  return ops;
}

// Gives a tensor what another one of the same type is given, unless something is given of it.
static void giveSame(const layout::GivenAttributes &known, const layout::GivenAttributes &own, const layout::TensorRef &tensor) {
  if (known.layout && !own.layout) {
    Builder builder(known.layout.getContext());
    layout::writeGiven(tensor, {known.layout, known.open ? known.open : builder.getDenseI64ArrayAttr({}), known.priority,
                                known.origin ? known.origin : builder.getArrayAttr({})});
  }
}

// Gives the ops of a program what is given to those of the forward pass of a step that have their path, kind and place, and the types: the
// evaluation has them all.
static void giveForwardOps(func::FuncOp step, func::FuncOp other) {
  OpsByPlace known = forwardOps(step);
  for (auto &[place, ops] : forwardOps(other)) {
    const SmallVector<Operation *> &like = known[place];
    if (like.size() != ops.size()) {
      continue;
    }
    for (auto [from, to] : llvm::zip_equal(like, ops)) {
      if (from->getOperandTypes() != to->getOperandTypes() || from->getResultTypes() != to->getResultTypes()) {
        continue;
      }
      for (unsigned i = 0; i < to->getNumResults(); ++i) {
        giveSame(layout::readGiven(from->getResult(i)), layout::readGiven(to->getResult(i)), {layout::TensorRef::OpResult, to, i});
      }
      for (unsigned i = 0; i < to->getNumOperands(); ++i) {
        giveSame(layout::readGiven(from->getOpOperand(i)), layout::readGiven(to->getOpOperand(i)), {layout::TensorRef::Operand, to, i});
      }
    }
  }
}

OwningOpRef<ModuleOp> giveOtherPrograms(ModuleOp module, ModuleOp given) {
  OwningOpRef<ModuleOp> made = given.clone();
  OpBuilder builder(*made->getOps<func::FuncOp>().begin());
  for (auto function : module.getOps<func::FuncOp>()) { // in the order that they have
    if (auto same = made->lookupSymbol<func::FuncOp>(function.getName())) {
      builder.setInsertionPointAfter(same);
    } else {
      builder.clone(*function);
    }
  }
  if (func::FuncOp step = nn::findProgram(*made, nn::ProgramRole::TrainStep)) {
    for (auto function : made->getOps<func::FuncOp>()) {
      if (!given.lookupSymbol(function.getName())) {
        giveForwardOps(step, function);
      }
    }
  }
  layout::NamedTensors named(*made);
  for (StringRef name : named.names().list({NameKind::Op, NameKind::Tensor})) {
    if (name.find_first_of("*?") != StringRef::npos) {
      continue; // as a rule it may mean more
    }
    layout::GivenAttributes known;
    Type type;
    SmallVector<layout::TensorRef> others;
    for (const layout::TensorRef &tensor : named.findTensors(name)) {
      if (tensor.kind != layout::TensorRef::OpResult) {
        continue;
      }
      layout::GivenAttributes here = layout::readGiven(tensor.op->getResult(tensor.index));
      if (here.layout && !known.layout) {
        known = here;
        type = tensor.getType();
      } else if (!here.layout) {
        others.push_back(tensor);
      }
    }
    for (const layout::TensorRef &tensor : others) {
      if (known.layout && tensor.getType() == type) {
        layout::writeGiven(tensor, known);
      }
    }
  }
  return made;
}

OwningOpRef<ModuleOp> leaveOutBackward(ModuleOp before, ModuleOp given) {
  OwningOpRef<ModuleOp> made = given.clone(), model = before.clone();
  llvm::for_each(model->getOps<func::FuncOp>(), layout::copySources);
  for (auto [function, was] : llvm::zip_equal(made->getOps<func::FuncOp>(), model->getOps<func::FuncOp>())) {
    nn::Phases phases(func::FuncOp(function).front());
    for (auto [op, opBefore] : llvm::zip_equal(func::FuncOp(function).front(), func::FuncOp(was).front())) {
      if (phases.of(&op) == nn::Phase::Backward) {
        op.setAttrs(opBefore.getAttrDictionary());
      }
    }
  }
  return made;
}

bool splitBatch(ModuleOp module, int64_t batch) {
  dist::MeshAttr mesh = dist::findMesh(module).getMesh();
  bool anySplit = false;
  for (auto function : module.getOps<func::FuncOp>()) {
    for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
      auto tensor = cast<RankedTensorType>(type);
      batch = batch == 0 && tensor.getRank() > 0 ? tensor.getDimSize(0) : batch;
      if (tensor.getRank() == 0 || tensor.getDimSize(0) != batch || function.getArgAttr(index, dist::kLayoutAttr)) {
        continue;
      }
      dist::Layout layout = dist::Layout::replicated(tensor.getRank());
      layout.dims.front().assign(mesh.getAxes().begin(), mesh.getAxes().end());
      if (!dist::isEven(mesh, batch, layout.dims.front())) {
        return false;
      }
      function.setArgAttr(index, dist::kLayoutAttr, dist::LayoutAttr::get(module.getContext(), layout));
      anySplit = true;
    }
  }
  return anySplit;
}

} // namespace ashlar::search

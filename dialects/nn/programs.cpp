// SPDX-License-Identifier: Apache-2.0
//
// Roles of programs, their names, and the variables that programs make for each other.

#include "dialects/nn/programs.h"

using namespace mlir;

namespace ashlar::nn {
namespace {

bool isOfMicroBatch(ProgramRole role) {
  return role == ProgramRole::TrainStep || role == ProgramRole::Forward || role == ProgramRole::Backward || role == ProgramRole::Weights;
}

} // namespace

LogicalResult ProgramAttr::verify(function_ref<InFlightDiagnostic()> emitError, ProgramRole role, int64_t chunk, int64_t round,
                                  bool prepares, bool updates) {
  const StringRef name = stringifyProgramRole(role);
  if (chunk < 0 || round < 0) { // C1
    return emitError() << "chunk " << chunk << ", round " << round << " of a program; both are counted from 0";
  }
  const bool mayHaveChunk = role == ProgramRole::EvalStep || (isOfMicroBatch(role) && role != ProgramRole::TrainStep);
  if (chunk > 0 && !mayHaveChunk) { // C2
    return emitError() << "chunk " << chunk << " of " << name << ", but only forward, backward, weights and eval_step have chunks";
  }
  if (round > 0 && role != ProgramRole::Update) { // C3
    return emitError() << "round " << round << " of " << name << ", but only update has rounds";
  }
  if ((prepares || updates) && !isOfMicroBatch(role)) { // C4
    return emitError() << name << " that " << (prepares ? "prepares" : "updates") << ", but only programs of a micro-batch are joined";
  }
  return success();
}

LogicalResult NnDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != kProgramAttr) {
    return success();
  }
  if (!isa<SymbolOpInterface>(op)) {
    return op->emitOpError("has ") << kProgramAttr << ", which belongs on functions";
  }
  if (!isa<ProgramAttr>(attribute.getValue())) {
    return op->emitOpError("has ") << kProgramAttr << " = " << attribute.getValue() << "; give it a role, as #nn.program<train_step>";
  }
  return success();
}

ProgramAttr programOf(Operation *op) {
  return op->getAttrOfType<ProgramAttr>(kProgramAttr);
}

bool hasRole(Operation *op, ProgramRole role) {
  ProgramAttr program = programOf(op);
  return program && program.getRole() == role;
}

bool isEvaluation(Operation *op) {
  return hasRole(op, ProgramRole::EvalStep);
}

bool isOncePerStep(Operation *op) {
  ProgramAttr program = programOf(op);
  return program && (program.getRole() == ProgramRole::Prepare || program.getRole() == ProgramRole::Update || program.getPrepares() ||
                     program.getUpdates());
}

func::FuncOp findProgram(ModuleOp module, ProgramRole role) {
  const auto wanted = ProgramAttr::get(module.getContext(), role);
  for (auto function : module.getOps<func::FuncOp>()) {
    if (programOf(function) == wanted) {
      return function;
    }
  }
  return {};
}

func::FuncOp findMain(ModuleOp module) {
  for (ProgramRole role : {ProgramRole::TrainStep, ProgramRole::Run, ProgramRole::Decode}) {
    if (func::FuncOp program = findProgram(module, role)) {
      return program;
    }
  }
  return {};
}

StringRef nameOf(ProgramRole role) {
  switch (role) {
  case ProgramRole::Run:
    return "forward";
  case ProgramRole::LargerRun:
    return "larger_forward";
  default:
    return stringifyProgramRole(role);
  }
}

std::string freeName(StringRef name, function_ref<bool(StringRef)> isTaken) {
  std::string free = name.str();
  for (int64_t number = 0; isTaken(free); ++number) {
    free = name.str() + ".program" + (number == 0 ? "" : std::to_string(number));
  }
  return free;
}

std::string freeSymbol(ModuleOp module, StringRef name, Operation *self) {
  return freeName(name, [&](StringRef tried) {
    return llvm::any_of(*module.getBody(), [&](Operation &op) {
      auto symbol = dyn_cast<SymbolOpInterface>(op);
      return symbol && &op != self && symbol.getNameAttr() && symbol.getName() == tried;
    });
  });
}

void setProgram(func::FuncOp function, ProgramRole role) {
  function->setAttr(kProgramAttr, ProgramAttr::get(function.getContext(), role));
  function.setName(freeSymbol(function->getParentOfType<ModuleOp>(), nameOf(role), function));
}

func::FuncOp createProgram(OpBuilder &builder, Location loc, ProgramRole role, FunctionType type) {
  auto function = func::FuncOp::create(builder, loc, nameOf(role), type);
  setProgram(function, role);
  return function;
}

SmallVector<VariableOp> preparedVariables(ModuleOp module) {
  SmallVector<VariableOp> variables;
  SymbolTable symbols(module); // a look-up in the module itself is linear
  if (func::FuncOp prepare = findProgram(module, ProgramRole::Prepare)) {
    for (auto write : prepare.front().getOps<WriteOp>()) {
      variables.push_back(symbols.lookup<VariableOp>(write.getVariable()));
    }
  }
  return variables;
}

LogicalResult verifyPrograms(ModuleOp module) {
  DenseMap<Attribute, func::FuncOp> programs;
  for (auto function : module.getOps<func::FuncOp>()) {
    ProgramAttr program = programOf(function);
    if (!program) {
      return function.emitOpError("@") << function.getName() << " has no role; give it " << kProgramAttr
                                       << ", as attributes {nn.program = #nn.program<train_step>}";
    }
    auto [other, isFirst] = programs.try_emplace(program, function);
    if (!isFirst) {
      InFlightDiagnostic diagnostic = function.emitOpError("@") << function.getName() << " is a second program of " << program;
      diagnostic.attachNote(other->second.getLoc()) << "the first";
      return diagnostic;
    }
  }
  return success();
}

} // namespace ashlar::nn

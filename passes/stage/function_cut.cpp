// SPDX-License-Identifier: Apache-2.0
//
// See function_cut.h. First it is found out what each program needs, then the functions are made.

#include "passes/stage/function_cut.h"

#include "dialects/dist/stages.h"
#include "dialects/support/element_type.h"
#include "passes/analysis/minimum_cut.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ashlar::stage {

namespace {

bool costsLittle(Operation *op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute && llvm::is_contained({Cost::Free, Cost::Simple}, compute.getCost());
}

// Whether an op costs no more than a walk over its result, which is no smaller than what it is made of.
bool isCheap(Operation *op) {
  auto elementsOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); };
  return costsLittle(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return elementsOf(operand) <= elementsOf(op->getResult(0)); });
}

// Returns what an op takes that a program rematerializes: what another program makes is there before this one begins, or much later.
OperandRange rematerializedOperands(Operation *op) {
  return op->getOperands().take_front(isa<dist::AfterOp>(op) ? 1 : op->getNumOperands());
}

} // namespace

nn::ProgramRole roleOf(StepPhase phase) {
  switch (phase) {
  case StepPhase::Forward:
    return nn::ProgramRole::Forward;
  case StepPhase::Backward:
    return nn::ProgramRole::Backward;
  case StepPhase::Weights:
    return nn::ProgramRole::Weights;
  }
  llvm_unreachable("unknown phase");
}

std::optional<Part> partOf(nn::ProgramAttr role) {
  for (StepPhase phase : {StepPhase::Forward, StepPhase::Backward, StepPhase::Weights}) {
    if (role.getRole() == roleOf(phase)) {
      return Part{phase, role.getChunk()};
    }
  }
  return std::nullopt;
}

StageProgram &FunctionCut::program(int64_t stage, nn::ProgramAttr role, int64_t time) {
  auto [found, isNew] = list.try_emplace({stage, role.getRole(), role.getChunk(), role.getRound()});
  if (isNew) {
    found->second.name = nameOf(role);
    found->second.role = role;
    found->second.stage = stage;
    found->second.time = time;
  }
  return found->second;
}

void FunctionCut::add(Operation *op, StageProgram &program) {
  program.ops.insert(op);
  programs[op] = &program;
}

void FunctionCut::addWrite(Operation *write, StageProgram &program) {
  program.writes.push_back(write);
  auto [time, isFirst] = writeTimes.try_emplace({program.stage, cast<nn::WriteOp>(write).getVariable()}, program.time);
  time->second = std::min(time->second, program.time);
}

void FunctionCut::addResult(unsigned result, StageProgram &program) {
  program.results.push_back(result);
}

void FunctionCut::forEachTaken(const StageProgram &program, function_ref<void(Value)> visit) {
  for (Operation *op : llvm::concat<Operation *const>(program.ops.getArrayRef(), program.writes)) {
    llvm::for_each(op->getOperands(), visit);
  }
  for (unsigned result : program.results) {
    visit(function.front().getTerminator()->getOperand(result));
  }
}

bool FunctionCut::isWrittenBefore(StringRef variable, const StageProgram &program) const {
  auto time = writeTimes.find({program.stage, variable});
  return time != writeTimes.end() && time->second < program.time;
}

SmallVector<StageProgram *> FunctionCut::programsOf(int64_t stage) {
  SmallVector<StageProgram *> found;
  for (auto &[key, program] : list) {
    if (std::get<0>(key) == stage) {
      found.push_back(&program);
    }
  }
  llvm::sort(found, [](StageProgram *a, StageProgram *b) { return a->time < b->time; });
  return found;
}

std::optional<bool> FunctionCut::rematerializesAnyway(Operation *op, const StageProgram &program) {
  switch (assignment.accessOf(op)) {
  case Access::Free: {
    auto read = dyn_cast<nn::ReadOp>(op);
    return !read || (assignment.holds(program.stage, read.getVariable()) && !isWrittenBefore(read.getVariable(), program));
  }
  case Access::Counted:
    return programsOf(program.stage).front() == &program || (!isa<nn::ReadOp>(op) && costsLittle(op));
  case Access::Fixed:
    break;
  }
  if (expands(op) || isa<dist::AfterOp>(op)) {
    return true;
  }
  StageProgram *maker = programOf(op);
  return isCheap(op) && maker && maker->stage == program.stage ? std::nullopt : std::optional(false);
}

void FunctionCut::planRematerialization(StageProgram &program) {
  analysis::MinimumCut graph;
  const unsigned made = graph.addNode(), needed = graph.addNode();
  llvm::MapVector<Operation *, unsigned> nodes; // by op: where its operands are; the next one is where its results are
  SmallVector<Operation *> pending;
  // Returns the node of a value's op; nothing for what the program has.
  auto nodeOf = [&](Value value) -> std::optional<unsigned> {
    Operation *def = value.getDefiningOp();
    if (!def || program.ops.contains(def) || program.imports.contains(value)) {
      return std::nullopt;
    }
    auto [found, isNew] = nodes.try_emplace(def, 0);
    if (isNew) {
      found->second = graph.addNode();
      graph.addNode();
      pending.push_back(def);
    }
    return found->second;
  };
  forEachTaken(program, [&](Value value) {
    if (std::optional<unsigned> node = nodeOf(value)) {
      graph.addEdge(*node + 1, needed, analysis::MinimumCut::kNever);
    }
  });
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val();
    const unsigned node = nodes.lookup(op);
    const std::optional<bool> rematerializes = rematerializesAnyway(op, program);
    graph.addEdge(node, node + 1,
                  rematerializes.value_or(false) ? analysis::MinimumCut::kNever : static_cast<double>(bytesToPass(op, program)));
    if (rematerializes == false) {
      graph.addEdge(made, node, analysis::MinimumCut::kNever);
      continue;
    }
    for (Value operand : rematerializedOperands(op)) {
      if (std::optional<unsigned> from = nodeOf(operand)) {
        graph.addEdge(*from + 1, node, analysis::MinimumCut::kNever);
      }
    }
  }
  const std::vector<bool> isBehind = graph.behind(made, needed);
  for (auto [op, node] : nodes) {
    planned[{op, &program}] = isBehind[node];
  }
}

int64_t FunctionCut::bytesToPass(Operation *op, const StageProgram &program) {
  int64_t bytes = 0;
  for (Value result : op->getResults()) {
    const bool isThere = llvm::any_of(programsOf(program.stage), [&](StageProgram *other) { return other->imports.contains(result); });
    bytes += isThere ? 0 : byteSize(cast<RankedTensorType>(result.getType()));
  }
  return bytes;
}

bool FunctionCut::rematerializes(Operation *op, const StageProgram &program) {
  auto known = planned.find({op, &program});
  return known != planned.end() ? known->second : rematerializesAnyway(op, program).value_or(false);
}

// Returns the program that passes the results of an op on.
StageProgram *FunctionCut::makerOf(Operation *op, const StageProgram &program) {
  if (assignment.accessOf(op) == Access::Fixed) {
    return programOf(op);
  }
  auto read = dyn_cast<nn::ReadOp>(op);
  std::optional<int64_t> home = read ? assignment.homeOf(read.getVariable()) : std::nullopt;
  SmallVector<StageProgram *> found = programsOf(home.value_or(program.stage));
  if (!home || (!found.empty() && found.front()->time < program.time)) {
    return found.front();
  }
  // One which only passes the parameter on, at the time of the first chunk that takes it.
  const Cut &cut = assignment.getCut();
  const int64_t first = *assignment.firstTakerOf(read.getVariable());
  return &this->program(*home, roleOf(cut.chunkOf(first)), first);
}

LogicalResult FunctionCut::need(Value value, StageProgram &program) {
  SmallVector<Need> pending = {{value, &program}}; // the next one last
  while (!pending.empty()) {
    Need next = pending.pop_back_val();
    if (failed(need(next.first, *next.second, pending))) {
      return failure();
    }
  }
  return success();
}

LogicalResult FunctionCut::need(Value value, StageProgram &program, SmallVectorImpl<Need> &pending) {
  if (isa<BlockArgument>(value)) {
    program.inputs.insert(value);
    return success();
  }
  Operation *def = value.getDefiningOp();
  if (program.ops.contains(def) || program.imports.contains(value)) {
    return success();
  }
  if (rematerializes(def, program)) {
    if (!rematerialized[&program].insert(def).second) {
      return success();
    }
    for (Value operand : llvm::reverse(rematerializedOperands(def))) {
      pending.push_back({operand, &program});
    }
    return success();
  }
  StageProgram *maker = makerOf(def, program);
  if (!maker || maker->time >= program.time) {
    return function.emitError("op \"") << nn::getPath(def->getLoc()) << "\" of stage " << (maker ? maker->stage : -1) << " ("
                                       << (maker ? maker->name : "") << ") makes what stage " << program.stage << " takes earlier ("
                                       << program.name << ")";
  }
  program.imports[value] = maker;
  SmallVector<int64_t> &stages = maker->exports[value];
  if (maker->stage != program.stage && !llvm::is_contained(stages, program.stage)) {
    stages.push_back(program.stage);
  }
  pending.push_back({value, maker});
  return success();
}

LogicalResult FunctionCut::finish() {
  SmallVector<StageProgram *> order;
  for (auto &[key, program] : list) {
    order.push_back(&program);
  }
  llvm::sort(order, [](StageProgram *a, StageProgram *b) { return std::pair(a->time, a->stage) < std::pair(b->time, b->stage); });
  for (StageProgram *program : order) {
    planRematerialization(*program);
    bool failedAny = false;
    forEachTaken(*program, [&](Value value) { failedAny = failedAny || failed(need(value, *program)); });
    if (failedAny) {
      return failure();
    }
  }
  return success();
}

void FunctionCut::takeUnusedInputs() {
  if (list.empty()) {
    return;
  }
  auto order = [](const StageProgram &program) { return std::pair(program.time, program.stage); };
  StageProgram &first = llvm::min_element(list, [&](const auto &a, const auto &b) { return order(a.second) < order(b.second); })->second;
  for (BlockArgument argument : function.getArguments()) {
    if (llvm::none_of(list, [&](const auto &each) { return each.second.inputs.contains(argument); })) {
      first.inputs.insert(argument);
    }
  }
}

nn::ProgramAttr FunctionCut::roleOf(int64_t chunk) const {
  return nn::ProgramAttr::get(function->getContext(), nn::programOf(function).getRole(), chunk);
}

// Returns the name of the function of a program. The functions of the module are replaced by those of the stages.
std::string FunctionCut::nameOf(nn::ProgramAttr role) const {
  std::string wanted = nn::nameOf(role.getRole()).str();
  if (role.getRound() > 0) {
    wanted += "_" + std::to_string(role.getRound());
  } else if (role.getRole() == nn::ProgramRole::EvalStep || partOf(role)) {
    wanted = assignment.getCut().programName(wanted, role.getChunk());
  }
  auto module = function->getParentOfType<ModuleOp>();
  return nn::freeName(wanted, [&](StringRef tried) {
    Operation *other = module.lookupSymbol(tried);
    return other && !isa<func::FuncOp>(other);
  });
}

SmallVector<StringRef> FunctionCut::variablesRead(StageProgram &program) {
  SmallVector<StringRef> names;
  for (Operation *op : rematerialized[&program]) {
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      names.push_back(read.getVariable());
    }
  }
  return names;
}

dist::EndAttr FunctionCut::makerEnd(Value value) const {
  Operation *def = value.getDefiningOp();
  StringRef path = nn::getPath(def->getLoc());
  return dist::EndAttr::get(def->getContext(), dist::EndKind::Op, path, path.empty() ? def->getName().getStringRef() : "");
}

dist::EndAttr FunctionCut::takerEnd(Value value, StageProgram &program) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers()) {
    const bool isOwn = program.ops.contains(user) || rematerialized[&program].contains(user) || llvm::is_contained(program.writes, user);
    first = isOwn && (!first || user->isBeforeInBlock(first)) ? user : first;
  }
  MLIRContext *context = function.getContext();
  if (auto write = dyn_cast_or_null<nn::WriteOp>(first)) {
    return dist::EndAttr::get(context, dist::EndKind::ParameterUpdate, write.getVariable());
  }
  StringRef path = first ? nn::getPath(first->getLoc()) : "";
  return dist::EndAttr::get(context, dist::EndKind::Op, path,
                            !path.empty() ? ""
                            : first       ? first->getName().getStringRef()
                                          : StringRef(program.name));
}

StageProgram *FunctionCut::firstTaker(Value value, int64_t stage) {
  SmallVector<StageProgram *> programs = programsOf(stage);
  auto found = llvm::find_if(programs, [&](StageProgram *program) { return program->imports.contains(value); });
  return found == programs.end() ? nullptr : *found;
}

// Makes the ops that give a program the values of others, each ahead of its first user, in the order of the program's imports.
SmallVector<Operation *> FunctionCut::emitSources(OpBuilder &builder, StageProgram &program, const Crossing &crossing, IRMapping &mapping) {
  SmallVector<Operation *> made;
  for (auto [value, maker] : program.imports) {
    StringAttr name = crossing.name(value);
    if (maker->stage != program.stage && firstTaker(value, program.stage) == &program) {
      auto peer = dist::PeerAttr::get(builder.getContext(), maker->stage, crossing.channel(value, maker->stage, program.stage));
      made.push_back(dist::ReceiveOp::create(builder, value.getLoc(), value.getType(), name, peer,
                                             builder.getArrayAttr({makerEnd(value), takerEnd(value, program)})));
    } else {
      made.push_back(dist::TakeOp::create(builder, value.getLoc(), value.getType(), name));
    }
    mapping.map(value, made.back()->getResult(0));
  }
  return made;
}

// Makes the ops that leave values of a program for others, each behind the op that makes the value.
void FunctionCut::emitSinks(OpBuilder &builder, StageProgram &program, const Crossing &crossing, const IRMapping &mapping) {
  for (auto &[value, stages] : program.exports) {
    StringAttr name = crossing.name(value);
    Value own = mapping.lookup(value);
    builder.setInsertionPointAfterValue(own);
    SmallVector<Attribute> peers, cause = {makerEnd(value)};
    for (int64_t stage : stages) {
      peers.push_back(dist::PeerAttr::get(builder.getContext(), stage, crossing.channel(value, program.stage, stage)));
      cause.push_back(takerEnd(value, *firstTaker(value, stage)));
    }
    if (peers.empty()) {
      dist::KeepOp::create(builder, value.getLoc(), own, name);
    } else {
      dist::SendOp::create(builder, value.getLoc(), own, name, builder.getArrayAttr(peers), builder.getArrayAttr(cause));
    }
  }
}

// Moves the sources of a program ahead of their first users. They keep their order, in which the runtime receives.
static void moveToUsers(ArrayRef<Operation *> sources, Block &body) {
  Operation *place = body.getTerminator();
  for (Operation *source : llvm::reverse(sources)) {
    for (Operation *user : source->getUsers()) {
      place = user->isBeforeInBlock(place) ? user : place;
    }
    source->moveBefore(place);
    place = source;
  }
}

func::FuncOp FunctionCut::emit(OpBuilder &builder, StageProgram &program, const Crossing &crossing) {
  MLIRContext *context = builder.getContext();
  SmallVector<Type> argumentTypes, resultTypes;
  SmallVector<DictionaryAttr> argumentAttributes, resultAttributes;
  SmallVector<Value> arguments, results;
  for (BlockArgument argument : function.getArguments()) {
    if (program.inputs.contains(argument)) {
      NamedAttrList attributes(function.getArgAttrDict(argument.getArgNumber()));
      attributes.append(dist::kSlotAttr, builder.getUnitAttr());
      argumentTypes.push_back(argument.getType());
      argumentAttributes.push_back(attributes.getDictionary(context));
      arguments.push_back(argument);
    }
  }
  Operation *end = function.front().getTerminator();
  for (OpOperand &operand : end->getOpOperands()) {
    if (programOf(operand.get().getDefiningOp()) == &program || llvm::is_contained(program.results, operand.getOperandNumber())) {
      resultTypes.push_back(operand.get().getType());
      resultAttributes.push_back(function.getResultAttrDict(operand.getOperandNumber()));
      results.push_back(operand.get());
    }
  }
  auto made = func::FuncOp::create(builder, function.getLoc(), program.name, builder.getFunctionType(argumentTypes, resultTypes));
  made->setAttr(nn::kProgramAttr, program.role);
  made.setAllArgAttrs(argumentAttributes);
  made.setAllResultAttrs(resultAttributes);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(made.addEntryBlock());
  IRMapping mapping;
  mapping.map(arguments, made.getArguments());
  SmallVector<Operation *> sources = emitSources(builder, program, crossing, mapping);
  const llvm::DenseSet<Operation *> &again = rematerialized[&program];
  for (Operation &op : function.front().without_terminator()) {
    auto after = dyn_cast<dist::AfterOp>(op);
    if (again.contains(&op) && after && !mapping.contains(after.getEvent())) {
      mapping.map(after.getResult(), mapping.lookup(after.getInput()));
    } else if (program.ops.contains(&op) || again.contains(&op)) {
      builder.clone(op, mapping)->removeAttr(dist::kVirtualStageAttr); // kernels that compute the same are one
    }
  }
  for (Operation *write : program.writes) {
    builder.clone(*write, mapping);
  }
  func::ReturnOp::create(builder, end->getLoc(), llvm::map_to_vector(results, [&](Value value) { return mapping.lookup(value); }));
  moveToUsers(sources, made.front());
  emitSinks(builder, program, crossing, mapping);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(made.front()))) { // what only others take, and make for themselves
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
  return made;
}

} // namespace ashlar::stage

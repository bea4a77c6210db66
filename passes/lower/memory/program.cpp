// SPDX-License-Identifier: Apache-2.0
//
// Decides where each value of a program is computed. Four walks over the function: number the instructions, those of a body between the
// repeat and its yield, give named values their place, reuse dead ones, add the remaining copies.

#include "passes/lower/memory/program.h"

#include "dialects/dist/owners.h"
#include "dialects/support/aliases.h"
#include "dialects/support/element_type.h"
#include "passes/lower/calls/library_insert.h"
#include "passes/lower/calls/library_product.h"
#include "passes/lower/kernels/kernel_emitter.h"
#include "passes/lower/memory/repeat_rows.h"
#include "passes/lower/memory/storage_uses.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::lower {
namespace {

bool isInstruction(Operation *op) {
  return isa<exec::FusionOp, exec::AwaitOp, dist::CollectiveOpInterface, dist::SliceOp>(op);
}

// Returns the values that an instruction makes.
ResultRange resultsOf(Operation *op) {
  return isa<exec::AwaitOp>(op) ? op->getResults().take_front(0) : op->getResults();
}

// Returns the wait for an asynchronous collective; null when it is none.
exec::AwaitOp findAwait(Operation *op) {
  Operation *user = op->getNumResults() > 0 && op->getResult(0).hasOneUse() ? *op->getResult(0).user_begin() : nullptr;
  return dyn_cast_or_null<exec::AwaitOp>(user);
}

class ProgramBuilder {
public:
  ProgramBuilder(func::FuncOp function, const TensorTable &tensors, ConstantPool &constants, dist::MeshAttr mesh, exec::Target target)
      : tensors(tensors), constants(constants), mesh(mesh), target(target), owners(function.front()) {
    program.function = function;
  }

  FailureOr<Program> build() {
    if (failed(scan())) {
      return failure();
    }
    placeNamed();
    placeTemporaries();
    addInstructions();
    addRuns();
    addCopies(outputCopies, end);
    addCopies(variableCopies, end);
    return std::move(program);
  }

private:
  // A value that is to end up in a storage although it is not computed there.
  struct Copy {
    Value value;
    unsigned target;
    Location loc;
    std::optional<int64_t> owner = {};   // of the target
    std::optional<unsigned> source = {}; // where the value is not in its place
  };

  // What a repeat copies: first values, rows at the begin of an iteration, and yielded values at the end of one.
  struct RepeatCopies {
    SmallVector<Copy> before, atBegin, yielded;
  };

  unsigned addStorage(Storage storage) {
    program.storages.push_back(std::move(storage));
    return program.storages.size() - 1;
  }

  // Returns the storage of a named tensor.
  unsigned named(unsigned tensor) {
    auto [it, isNew] = namedStorages.try_emplace(tensor, 0);
    if (isNew) {
      const NamedTensor &known = tensors.tensors()[tensor];
      it->second = addStorage({known.isInSlot ? exec::Space::Slot : exec::Space::Arena, /*temporary=*/false, known.offset, {}});
    }
    return it->second;
  }

  // Numbers the instructions and places arguments, constants, coordinates and reads.
  LogicalResult scan() {
    Block &body = program.function.getBody().front();
    for (auto [argument, tensor] : llvm::zip_equal(body.getArguments(), tensors.inputs(program.function))) {
      places[argument] = named(tensor);
    }
    WalkResult result = body.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
      if (failed(scan(op))) {
        return WalkResult::interrupt();
      }
      return isa<exec::FusionOp>(op) ? WalkResult::skip() : WalkResult::advance();
    });
    end = times.size();
    return failure(result.wasInterrupted());
  }

  LogicalResult scan(Operation *op) {
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](nn::ReadOp read) { return scanRead(read); })
        .Case([&](nn::WriteOp write) { return scanWrite(write); })
        .Case([&](nn::ConstantOp constant) {
          places[constant.getResult()] =
              addStorage({exec::Space::Constant, /*temporary=*/false, constants.offsetOf(constant.getValue()), {}});
          return success();
        })
        .Case([&](dist::AxisIndexOp index) { return scanAxisIndex(index); })
        .Case([&](dist::SlotOpInterface slot) {
          if (slot.isSource()) {
            places[slot.getSlotValue()] = named(tensors.passed(slot.getSlot()));
          }
          return success();
        })
        .Default([&](Operation *other) -> LogicalResult {
          if (isInstruction(other) || isa<nn::RepeatOp, nn::YieldOp>(other)) {
            times[other] = times.size();
          } else if (!aliasesOperands(other) && !isa<func::ReturnOp>(other)) {
            return other->emitOpError("cannot be planned; only fusions, collectives, reads, writes and constants can, "
                                      "run ashlar-fuse first");
          }
          return success();
        });
  }

  LogicalResult scanRead(nn::ReadOp read) {
    unsigned tensor = tensors.variable(read.getVariable());
    if (written.contains(tensor)) {
      return read.emitOpError("reads \"") << read.getVariable() << "\" after the program wrote it";
    }
    places[read.getResult()] = named(tensor);
    readsOf[tensor].push_back(read.getResult());
    return success();
  }

  LogicalResult scanWrite(nn::WriteOp write) {
    if (!written.insert(tensors.variable(write.getVariable())).second) {
      return write.emitOpError("writes \"") << write.getVariable() << "\" a second time in one program";
    }
    return success();
  }

  LogicalResult scanAxisIndex(dist::AxisIndexOp op) {
    assert(op.getAxes().size() == 1 && "the pass computes indices along several axes from those along one");
    std::optional<unsigned> axis = mesh ? mesh.findAxis(cast<StringAttr>(op.getAxes()[0])) : std::nullopt;
    if (!axis) {
      return op.emitOpError("needs a mesh with the axis ") << op.getAxes()[0];
    }
    places[op.getResult()] = addStorage({exec::Space::Arena, /*temporary=*/false, TensorTable::coordinateOffset(*axis), {}});
    return success();
  }

  // Returns when `use` reads its value for the last time: at an instruction, or at the end by a copy. Asynchronous collectives read until
  // they are awaited, repeats in their last iteration.
  int64_t timeOf(OpOperand &use) const {
    exec::AwaitOp await = findAwait(use.getOwner());
    auto repeat = dyn_cast<nn::RepeatOp>(use.getOwner());
    auto it = times.find(await ? await : repeat ? endOf(repeat) : use.getOwner());
    return it == times.end() ? end : it->second;
  }

  // Lets the values that are written or returned be computed in their final place where that is safe; the rest will be copied.
  void placeNamed() {
    Block &body = program.function.getBody().front();
    for (auto write : body.getOps<nn::WriteOp>()) {
      unsigned tensor = tensors.variable(write.getVariable());
      place(write.getValue(), tensor, readsOf.lookup(tensor), write.getLoc(), variableCopies);
    }
    Operation *terminator = body.getTerminator();
    for (auto [value, tensor] : llvm::zip_equal(terminator->getOperands(), tensors.outputs(program.function))) {
      place(value, tensor, /*oldValues=*/{}, terminator->getLoc(), outputCopies);
    }
    for (auto slot : body.getOps<dist::SlotOpInterface>()) {
      if (!slot.isSource()) {
        place(slot.getSlotValue(), tensors.passed(slot.getSlot()), /*oldValues=*/{}, terminator->getLoc(), outputCopies);
      }
    }
  }

  void place(Value reshaped, unsigned tensor, ArrayRef<Value> oldValues, Location loc, SmallVectorImpl<Copy> &copies) {
    Value value = getStorageRoot(reshaped);
    if (canCompute(value, oldValues) && fitsOwner(value, tensor)) {
      places[value] = named(tensor);
      placeRoot(value, tensor, oldValues);
      return;
    }
    auto place = places.find(value);
    if (place == places.end() || place->second != named(tensor)) {
      copies.push_back({value, named(tensor), loc, tensors.tensors()[tensor].owner});
    }
  }

  // Returns whether nothing but the device that holds the tensor, where it is one, computes the value.
  bool fitsOwner(Value value, unsigned tensor) const {
    std::optional<int64_t> owner = tensors.tensors()[tensor].owner;
    return !owner || owners.of(value.getDefiningOp()) == owner;
  }

  // The operand of a broadcast, or the base of an insert, is computed in the place of its result, if that is safe.
  void placeRoot(Value result, unsigned tensor, ArrayRef<Value> oldValues) {
    while (Value value = findOverwritten(result)) {
      SmallVector<OpOperand *> uses;
      collectStorageUses(value, uses);
      if (uses.size() != 1 || !canCompute(value, oldValues) || !fitsOwner(value, tensor)) {
        return;
      }
      places[value] = named(tensor);
      result = value;
    }
  }

  // Returns the value that becomes `result` by a broadcast or an insert, with no bytes of its own; null for none, or if it is the rows too.
  static Value findOverwritten(Value result) {
    if (auto broadcast = result.getDefiningOp<dist::BroadcastOp>()) {
      return getStorageRoot(broadcast.getInput());
    }
    auto fusion = result.getDefiningOp<exec::FusionOp>();
    std::optional<unsigned> base = fusion ? findInsertBase(fusion) : std::nullopt;
    return base && insertsOver(fusion, *base) ? getStorageRoot(fusion.getInputs()[*base]) : Value();
  }

  // Returns whether `value` may be computed over `oldValues`, the reads of the variable it goes to.
  bool canCompute(Value value, ArrayRef<Value> oldValues) const {
    Operation *producer = value.getDefiningOp();
    const bool isMadeOverTime = isStack(value) && oldValues.empty(); // row by row, so that nothing else can be there
    if (!producer || !(isInstruction(producer) || isMadeOverTime) || places.contains(value)) {
      return false;
    }
    SmallVector<OpOperand *> uses;
    for (Value old : oldValues) {
      collectStorageUses(old, uses);
    }
    int64_t now = times.lookup(producer);
    unsigned overwritten = 0;
    for (OpOperand *use : uses) {
      int64_t time = use->getOwner() == producer ? now : timeOf(*use);
      if (time > now || (time == now && !canOverwrite(*use, value))) {
        return false;
      }
      overwritten += time == now;
    }
    return overwritten <= 1; // of two arguments with one address a kernel could not know the one that changes
  }

  // Returns whether the instruction may write `result` over the operand `use`, once nothing else needs it.
  bool canOverwrite(OpOperand &use, Value result) const {
    Operation *op = use.getOwner();
    if (auto fusion = dyn_cast<exec::FusionOp>(op)) {
      if (fusion.getKind() == exec::FusionKind::Gemm) {
        return isAccumulator(fusion, use.getOperandNumber());
      }
      if (fusion.getKind() == exec::FusionKind::Insert) {
        return insertsOver(fusion, use.getOperandNumber());
      }
      return mayAlias(fusion, use.getOperandNumber(), cast<OpResult>(result).getResultNumber(), target);
    }
    return isa<dist::AllReduceOp, dist::BroadcastOp>(op) && use.getOperandNumber() == cast<OpResult>(result).getResultNumber();
  }

  // Places the other results, in order, over operands that die where possible.
  void placeTemporaries() {
    DenseMap<Value, int64_t> lastUse;
    for (auto &[op, time] : times) {
      for (OpOperand &operand : op->getOpOperands()) {
        int64_t &last = lastUse[getStorageRoot(operand.get())];
        last = std::max(last, timeOf(operand));
      }
    }
    for (const Copy &copy : llvm::concat<Copy>(outputCopies, variableCopies)) {
      lastUse[copy.value] = end;
    }
    for (auto &[op, time] : times) {
      if (auto repeat = dyn_cast<nn::RepeatOp>(op)) {
        placeRepeat(repeat, time, lastUse);
        continue;
      }
      for (OpResult result : resultsOf(op)) {
        if (!places.contains(result)) {
          places[result] = reuse(op, result, time, lastUse);
        }
        Storage &storage = program.storages[places[result]];
        storage.lifetime.last = std::max({storage.lifetime.last, time, lastUse.lookup(result)});
      }
    }
  }

  // Places the arguments of a body, the results of the repeat, and what of the yielded values can be computed right there.
  void placeRepeat(nn::RepeatOp repeat, int64_t time, const DenseMap<Value, int64_t> &lastUse) {
    const int64_t last = times.lookup(endOf(repeat));
    RepeatCopies &copies = copiesOf[repeat];
    auto addTemporary = [&](Type type, int64_t until) {
      Lifetime lifetime{time, std::max(last, until), static_cast<uint64_t>(byteSize(cast<ShapedType>(type)))};
      return addStorage({exec::Space::Arena, /*temporary=*/true, 0, lifetime});
    };
    for (auto [operand, argument] : llvm::zip_equal(repeat.getCaptured(), repeat.getCapturedArguments())) {
      places[argument] = places.lookup(getStorageRoot(operand));
    }
    for (auto [operand, argument] : llvm::zip_equal(repeat.getSliced(), repeat.getSlicedArguments())) {
      const unsigned row = addRow(repeat, places.lookup(getStorageRoot(operand)), argument.getType());
      places[argument] = row;
      if (!isAlignedRow(argument.getType(), target) || meetsDevices(argument)) {
        places[argument] = addTemporary(argument.getType(), last);
        copies.atBegin.push_back({argument, places[argument], repeat.getLoc(), {}, row});
      }
    }
    for (auto [result, value] : llvm::zip_equal(repeat.getStackedResults(), repeat.getYieldedStacked())) {
      const unsigned stack = places.contains(result) ? places[result] : addTemporary(result.getType(), lastUse.lookup(result));
      places[result] = stack;
      const unsigned row = addRow(repeat, stack, value.getType());
      placeYielded(value, row, {}, copies, isAlignedRow(value.getType(), target) && !meetsDevices(getStorageRoot(value)));
    }
    for (auto [i, operand] : llvm::enumerate(repeat->getOpOperands().take_front(repeat.getCarried().size()))) {
      Value first = getStorageRoot(operand.get()), result = repeat->getResult(i), argument = repeat.getBody().getArgument(i);
      const bool isRepeated = llvm::count_if(repeat->getOperands(), [&](Value other) { return getStorageRoot(other) == first; }) > 1;
      const unsigned before = places.lookup(first);
      const bool isTaken = canTake(first, before) && !isRepeated && lastUse.lookup(first) == last;
      const unsigned storage = isTaken ? before : addTemporary(argument.getType(), lastUse.lookup(result));
      Lifetime &lifetime = program.storages[storage].lifetime;
      lifetime.last = std::max({lifetime.last, last, lastUse.lookup(result)});
      if (!isTaken) {
        copies.before.push_back({first, storage, repeat.getLoc()});
      }
      places[argument] = places[result] = storage;
    }
    for (auto [argument, value] : llvm::zip(repeat.getCarriedArguments(), repeat.getYielded())) {
      placeYielded(value, places[argument], SmallVector<Value>(argument.use_empty() ? 0 : 1, argument), copies, /*mayCompute=*/true);
    }
  }

  // Computes a yielded value in its place, over `oldValues`, or has it copied there at the end of the iteration.
  void placeYielded(Value yielded, unsigned place, ArrayRef<Value> oldValues, RepeatCopies &copies, bool mayCompute) {
    Value value = getStorageRoot(yielded);
    if (mayCompute && canCompute(value, oldValues)) {
      places[value] = place;
    } else {
      copies.yielded.push_back({value, place, yielded.getLoc()});
    }
  }

  unsigned addRow(nn::RepeatOp repeat, unsigned rows, Type type) {
    return addStorage(rowOf(repeat, rows, program.storages[rows], cast<RankedTensorType>(type)));
  }

  // Whether a value that dies leaves a temporary to another one: an argument of a body does not, since iterations follow.
  bool canTake(Value value, unsigned storage) const { return program.storages[storage].temporary && value.getDefiningOp(); }

  // Returns the storage of an operand that dies at `op` and may be overwritten by `result`; a new one when there is none.
  unsigned reuse(Operation *op, OpResult result, int64_t time, const DenseMap<Value, int64_t> &lastUse) {
    for (OpOperand &operand : op->getOpOperands()) {
      Value value = getStorageRoot(operand.get());
      unsigned storage = places.lookup(value);
      bool isTaken = llvm::any_of(op->getResults(), [&](OpResult other) { return places.contains(other) && places[other] == storage; });
      bool isRepeated = llvm::count_if(op->getOperands(), [&](Value other) { return getStorageRoot(other) == value; }) > 1;
      if (canTake(value, storage) && !isTaken && !isRepeated && canOverwrite(operand, result) && diesAt(operand, time, lastUse)) {
        return storage;
      }
    }
    Lifetime lifetime{time, time, static_cast<uint64_t>(byteSize(cast<ShapedType>(result.getType())))};
    return addStorage({exec::Space::Arena, /*temporary=*/true, 0, lifetime});
  }

  // Returns whether nothing reads the value of `operand`, an instruction's at `time`, while that runs or later.
  bool diesAt(OpOperand &operand, int64_t time, const DenseMap<Value, int64_t> &lastUse) const {
    Value value = getStorageRoot(operand.get());
    int64_t last = timeOf(operand);
    if (lastUse.lookup(value) != last) {
      return false;
    }
    SmallVector<OpOperand *> uses;
    if (last != time) { // it runs beside others, which may read the value before its own end
      collectStorageUses(value, uses);
    }
    return llvm::all_of(uses, [&](OpOperand *use) { return use == &operand || timeOf(*use) < time; });
  }

  void addInstructions() {
    for (auto &[op, time] : times) {
      if (isa<nn::YieldOp>(op)) {
        addCopies(copiesOf[op->getParentOp()].yielded, time);
      } else if (isa<nn::RepeatOp>(op)) {
        addCopies(copiesOf[op].before, time);
      }
      Instruction instruction{op, op->getLoc(), {}, {}, {}, {}, {}};
      if (auto repeat = dyn_cast<nn::RepeatOp>(op); repeat && repeat.getCondition()) {
        instruction.operands.push_back(places[getStorageRoot(repeat.getCondition())]);
        instruction.operandTypes.push_back(repeat.getCondition().getType());
      }
      if (isa<nn::RepeatOp, nn::YieldOp>(op)) {
        program.instructions.push_back(std::move(instruction));
        addCopies(copiesOf[op].atBegin, time);
        continue;
      }
      for (Value operand : op->getOperands()) {
        instruction.operands.push_back(places[getStorageRoot(operand)]);
        instruction.operandTypes.push_back(operand.getType());
      }
      holdBase(op, instruction);
      for (Value result : resultsOf(op)) {
        unsigned storage = places[result];
        auto overwritten = llvm::find(instruction.operands, storage);
        bool isInPlace = overwritten != instruction.operands.end();
        instruction.results.push_back(storage);
        instruction.resultTypes.push_back(result.getType());
        instruction.alias.push_back(isInPlace ? overwritten - instruction.operands.begin() : -1);
      }
      instruction.owner = owners.of(op);
      program.instructions.push_back(std::move(instruction));
    }
  }

  // Rows are inserted where the result is: a base that is needed later, or that is no temporary, is copied there first.
  void holdBase(Operation *op, const Instruction &instruction) {
    auto fusion = dyn_cast<exec::FusionOp>(op);
    std::optional<unsigned> base = fusion ? findInsertBase(fusion) : std::nullopt;
    if (base && instruction.operands[*base] != places[op->getResult(0)]) {
      const unsigned target = places[op->getResult(0)];
      addCopy(instruction.operands[*base], target, {op->getResult(0), target, op->getLoc(), owners.of(op)});
    }
  }

  // The operands of one all-reduce are best one run of bytes. Only temporaries can be moved, and none can be in two runs.
  void addRuns() {
    llvm::DenseSet<unsigned> taken;
    for (const Instruction &instruction : program.instructions) {
      if (!isa_and_nonnull<dist::AllReduceOp>(instruction.op) || instruction.operands.size() < 2) {
        continue;
      }
      for (const SmallVector<unsigned> &storages : {instruction.operands, instruction.results}) {
        llvm::DenseSet<unsigned> distinct(storages.begin(), storages.end());
        bool isFree =
            llvm::all_of(storages, [&](unsigned storage) { return program.storages[storage].temporary && !taken.contains(storage); });
        if (isFree && distinct.size() == storages.size()) {
          taken.insert(storages.begin(), storages.end());
          program.runs.push_back(storages);
        }
      }
    }
  }

  void addCopy(unsigned source, unsigned target, const Copy &copy) {
    Type type = copy.value.getType();
    program.instructions.push_back({nullptr, copy.loc, {source}, {target}, {type}, {type}, {-1}, copy.owner});
  }

  // Adds copies at a time. The source of one that is the target of another goes through a temporary, so that two variables, or two carried
  // values, can swap.
  void addCopies(MutableArrayRef<Copy> copies, int64_t time) {
    llvm::DenseSet<unsigned> targets;
    for (Copy &copy : copies) {
      copy.source = copy.source.value_or(places[copy.value]);
      if (*copy.source != copy.target) {
        targets.insert(copy.target);
      }
    }
    for (Copy &copy : copies) {
      if (*copy.source != copy.target && targets.contains(*copy.source)) {
        Lifetime lifetime{time, time, static_cast<uint64_t>(byteSize(cast<ShapedType>(copy.value.getType())))};
        unsigned temporary = addStorage({exec::Space::Arena, /*temporary=*/true, 0, lifetime});
        addCopy(*copy.source, temporary, copy);
        copy.source = temporary;
      }
    }
    for (const Copy &copy : copies) {
      if (*copy.source != copy.target) {
        addCopy(*copy.source, copy.target, copy);
      }
    }
  }

  const TensorTable &tensors;
  ConstantPool &constants;
  dist::MeshAttr mesh;
  exec::Target target;
  dist::Owners owners;
  Program program;
  llvm::MapVector<Operation *, int64_t> times;    // of instructions
  int64_t end = 0;                                // time of the copies after the last instruction
  DenseMap<Value, unsigned> places;               // storage of each value
  DenseMap<unsigned, unsigned> namedStorages;     // by tensor
  llvm::DenseSet<unsigned> written;               // tensors of variables
  DenseMap<unsigned, SmallVector<Value>> readsOf; // by tensor
  SmallVector<Copy> outputCopies, variableCopies;
  DenseMap<Operation *, RepeatCopies> copiesOf; // by repeat
};

} // namespace

FailureOr<Program> buildProgram(func::FuncOp function, const TensorTable &tensors, ConstantPool &constants, dist::MeshAttr mesh,
                                exec::Target target) {
  return ProgramBuilder(function, tensors, constants, mesh, target).build();
}

} // namespace ashlar::lower

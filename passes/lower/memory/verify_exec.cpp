// SPDX-License-Identifier: Apache-2.0
//
// Checks instruction tables by themselves, knowing nothing of how they were planned: every buffer lies inside the arena or the constants,
// every call fits its kernel and says what it writes, along each program every byte that is read was last written as a part of the same
// buffer, and all devices meet in the same collectives in one order.

#include "passes/lower/memory/arena_contents.h"
#include "passes/lower/memory/collective_order.h"
#include "passes/lower/memory/fixed_weights.h"
#include "passes/lower/passes.h"

#include "dialects/exec/exec.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_size.h"
#include "runtime/abi/ashlar_rt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/DenseSet.h"

#include <set>

using namespace mlir;

namespace ashlar::lower {
#define GEN_PASS_DEF_VERIFYEXECPASS
#include "passes/lower/passes.h.inc"

namespace {

// Whether bytes can be written: they lie in the arena, for all micro-batches or in the slot of each.
bool isMutable(exec::BufferAttr buffer) {
  return buffer.getSpace() != exec::Space::Constant;
}

bool overlap(exec::BufferAttr a, exec::BufferAttr b) {
  uint64_t aEnd = a.getOffset() + byteSize(a.getType()), bEnd = b.getOffset() + byteSize(b.getType());
  return a.getSpace() == b.getSpace() && a.getOffset() < bEnd && b.getOffset() < aEnd;
}

// The collectives that were started and not waited for. Few at a time, so that looking at each of them is cheap.
class Underway {
public:
  // Returns whether an instruction may use a buffer now: what is under way reads its sources and writes its targets.
  bool mayUse(const exec::BufferUse &use) const {
    return llvm::all_of(collectives, [&](exec::CollectiveOp collective) {
      return llvm::none_of(collective.getUses(), [&](const exec::BufferUse &other) {
        return (use.isWritten || other.isWritten) && overlap(use.buffer, other.buffer);
      });
    });
  }

  LogicalResult start(exec::CollectiveOp op) {
    if (!tokens.insert(*op.getToken()).second) {
      return op.emitOpError("has the token ") << *op.getToken() << " of an earlier collective of the program";
    }
    collectives.push_back(op);
    return success();
  }

  LogicalResult wait(exec::WaitOp op) {
    auto found = llvm::find_if(collectives, [&](exec::CollectiveOp collective) { return *collective.getToken() == op.getToken(); });
    if (found == collectives.end()) {
      return op.emitOpError("waits for the token ") << op.getToken() << ", with which nothing is under way";
    }
    collectives.erase(found);
    return success();
  }

  // Checks that everything was waited for that was started since there were `before` under way.
  LogicalResult finish(size_t before = 0) {
    if (collectives.size() <= before) {
      return success();
    }
    exec::CollectiveOp first = collectives.back();
    return first.emitOpError("is started with the token ") << *first.getToken() << ", and nothing waits for it";
  }

  size_t size() const { return collectives.size(); }

private:
  SmallVector<exec::CollectiveOp> collectives;
  llvm::DenseSet<int64_t> tokens;
};

// Returns the types of a kernel's buffers. On the cpu begin and end of a range follow them.
ArrayRef<Type> buffersOf(func::FuncOp kernel) {
  return kernel.getArgumentTypes().take_while([](Type type) { return isa<MemRefType>(type); });
}

// Returns for each memref argument of a kernel whether it stores to it.
SmallVector<bool> storesOf(func::FuncOp kernel) {
  SmallVector<bool> stores;
  for (BlockArgument argument : kernel.getArguments().take_front(buffersOf(kernel).size())) {
    stores.push_back(llvm::any_of(argument.getUsers(), [&](Operation *user) {
      auto effects = dyn_cast<MemoryEffectOpInterface>(user);
      return effects && effects.getEffectOnValue<MemoryEffects::Write>(argument).has_value();
    }));
  }
  return stores;
}

class Verifier {
public:
  Verifier(ModuleOp module, exec::Target target) : module(module), target(target), symbols(module) {}

  LogicalResult verify() {
    for (auto op : module.getOps<exec::ConstantOp>()) {
      constantBytes = std::max(constantBytes, op.getOffset() + byteSize(op.getValue().getShapedType()));
    }
    for (Operation &op : *module.getBody()) {
      bool isKernel = isa<func::FuncOp>(op) && op.hasAttr(exec::kExtentAttr);
      if (!isKernel && !isa<exec::VariantOp, exec::ConstantOp>(op)) { // C1
        return op.emitOpError("is left after lowering; only variants, constants and kernels may be");
      }
    }
    for (auto variant : module.getOps<exec::VariantOp>()) {
      if (failed(verifyVariant(variant))) {
        return failure();
      }
    }
    return success();
  }

private:
  // Devices that differ in what they hold alone are checked one after the other: each owner, one that owns nothing, and where such a one is
  // the root of a broadcast, it too.
  LogicalResult verifyVariant(exec::VariantOp variant) {
    std::set<int64_t> owners;
    variant.walk([&](Operation *op) {
      if (std::optional<int64_t> owner = exec::getOwner(op)) {
        owners.insert(*owner);
      }
    });
    hasOwners = !owners.empty();
    int64_t devices = 1;
    for (int64_t size : variant.getAxisSizes()) {
      devices *= size;
    }
    if (failed(verifyFixedWeights(variant))) {
      return failure();
    }
    int64_t other = 0;
    while (owners.count(other) != 0) {
      ++other;
    }
    if (other < devices) {
      owners.insert(other);
    }
    variant.walk([&](exec::CollectiveOp collective) {
      auto all = llvm::seq<int64_t>(0, hasOwners && collective.getKind() == CollectiveKind::Broadcast ? devices : 0);
      auto root = llvm::find_if(all, [&](int64_t each) { return owners.count(each) == 0 && isRoot(variant, collective, each); });
      if (root != all.end()) {
        owners.insert(*root);
      }
    });
    for (int64_t owner : owners) {
      if (owner < 0 || owner >= devices) { // C13
        return variant.emitOpError("has an instruction or a tensor of device ") << owner << " on a mesh of " << devices;
      }
      device = owner;
      if (failed(verifyOnDevice(variant))) {
        return failure();
      }
    }
    return LogicalResult(checkCollectiveOrder(variant)); // C9, C10, C11
  }

  LogicalResult verifyFixedWeights(exec::VariantOp variant) {
    FixedBytes fixed(variant);
    WalkResult result = variant.getBody().walk([&](exec::FixedWeightsOpInterface call) -> WalkResult {
      exec::BufferAttr weights = call.getWeights();
      auto program = call->getParentOfType<exec::ProgramOp>();
      const bool isInit = nn::hasRole(program, nn::ProgramRole::Init);
      if (call.getFixedWeights() && (isInit || !fixed.contains(weights))) { // C15
        return call->emitOpError("has fixed weights of ")
               << byteSize(weights.getType()) << " bytes at offset " << weights.getOffset() << " of the "
               << stringifySpace(weights.getSpace()) << ", which are no variable that @init alone writes, in @" << program.getSymName();
      }
      auto repeat = dyn_cast<exec::RepeatOp>(call->getParentOp());
      if (call.getKeptWeights() && (isInit || !repeat || !staysInRepeat(repeat, weights))) { // C15
        return call->emitOpError("has kept weights of ") << byteSize(weights.getType()) << " bytes at offset " << weights.getOffset()
                                                         << ", which are not the same in all iterations of a repeat around it";
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  // Whether the device runs an instruction, or holds a tensor.
  bool isHere(Operation *op) {
    std::optional<int64_t> owner = exec::getOwner(op);
    return !owner || owner == device;
  }

  // Whether a device is the root of its group's broadcast.
  static bool isRoot(exec::VariantOp variant, exec::CollectiveOp broadcast, int64_t device) {
    ArrayRef<int64_t> sizes = variant.getAxisSizes();
    SmallVector<int64_t> at(sizes.size());
    for (size_t axis = sizes.size(); axis-- > 0; device /= sizes[axis]) {
      at[axis] = device % sizes[axis];
    }
    int64_t place = 0;
    for (int64_t axis : broadcast.getAxes()) {
      place = place * sizes[axis] + at[axis];
    }
    return place == static_cast<int64_t>(broadcast.getRoot());
  }

  // Whether what the instruction reads has to be there: a broadcast reads on its root, and what an owner sends is nowhere else.
  bool needsSources(exec::VariantOp variant, Operation *op) {
    auto collective = dyn_cast<exec::CollectiveOp>(op);
    if (!hasOwners || !collective || collective.getKind() != CollectiveKind::Broadcast) {
      return true;
    }
    return isRoot(variant, collective, device);
  }

  LogicalResult verifyOnDevice(exec::VariantOp variant) {
    ArenaContents fixed;
    for (size_t axis = 0; axis < variant.getAxisSizes().size(); ++axis) {
      uint64_t offset = variant.getCoordinatesOffset() + axis * sizeof(int64_t);
      fixed.write(exec::BufferAttr::get(module.getContext(), exec::Space::Arena, offset,
                                        MemRefType::get({}, IntegerType::get(module.getContext(), 64))));
    }
    auto tensors =
        llvm::make_filter_range(variant.getBody().getOps<exec::TensorOp>(), [&](exec::TensorOp tensor) { return isHere(tensor); });
    for (exec::TensorOp tensor : tensors) {
      if (failed(verifyPlace(tensor, variant, tensor.getBuffer()))) {
        return failure();
      }
      fixed.write(tensor.getBuffer());
    }
    for (exec::TensorOp tensor : tensors) {
      if (!fixed.holds(tensor.getBuffer())) { // C4
        return tensor.emitOpError("shares bytes of the arena with another tensor or the mesh coordinates");
      }
    }
    for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
      if (failed(verifyProgram(variant, program, fixed))) {
        return failure();
      }
    }
    return success();
  }

  LogicalResult verifyProgram(exec::VariantOp variant, exec::ProgramOp program, ArenaContents contents) {
    Underway underway;
    if (failed(verifyInstructions(variant, program.getBody().front(), contents, underway))) {
      return failure();
    }
    for (auto tensor : variant.getBody().getOps<exec::TensorOp>()) {
      const bool isKept = tensor.getRole() == exec::Role::Variable || tensor.getRole() == exec::Role::State;
      if (isHere(tensor) && isKept && !contents.holds(tensor.getBuffer())) { // C14
        return program.emitOpError("leaves something else where @") << tensor.getSymName() << " is kept";
      }
    }
    return underway.finish(); // C12
  }

  // Checks the instructions of a program or of a repeat, and notes what they leave in the arena.
  LogicalResult verifyInstructions(exec::VariantOp variant, Block &block, ArenaContents &contents, Underway &underway) {
    const SmallVector<int64_t> counts = block.empty() ? SmallVector<int64_t>() : exec::repeatsAround(&block.front());
    for (Operation &op : block) {
      if (auto repeat = dyn_cast<exec::RepeatOp>(op)) {
        if (failed(verifyRepeat(variant, repeat, contents, underway))) {
          return failure();
        }
        continue;
      }
      auto instr = dyn_cast<exec::InstrOpInterface>(op);
      if (!instr) {
        return op.emitOpError("is not an instruction");
      }
      if (isa<exec::CollectiveOp>(op) && exec::getOwner(&op)) { // C13
        return op.emitOpError("is run by one device, but devices meet in it");
      }
      if (!isHere(&op)) {
        continue;
      }
      if (auto kernel = dyn_cast<exec::KernelOp>(op); kernel && failed(verifyCall(kernel))) {
        return failure();
      }
      if (failed(verifyUses(variant, instr, counts, contents, underway)) || failed(followTokens(op, underway))) { // C12
        return failure();
      }
    }
    return success();
  }

  // An iteration finds what the one before it left: two of them are all that there can be.
  LogicalResult verifyRepeat(exec::VariantOp variant, exec::RepeatOp repeat, ArenaContents &contents, Underway &underway) {
    constexpr int64_t kIterations = 2;
    const Underway before = underway;
    if (repeat.getCondition()) {
      return verifyConditional(variant, repeat, contents, underway);
    }
    for (int64_t i = 0; i < std::min<int64_t>(repeat.getCount(), kIterations); ++i) {
      underway = before;
      if (failed(verifyInstructions(variant, repeat.getBody().front(), contents, underway)) || failed(underway.finish(before.size()))) {
        return failure();
      }
    }
    return success();
  }

  // Behind a repeat with a condition there is what its body leaves, or what was there before.
  LogicalResult verifyConditional(exec::VariantOp variant, exec::RepeatOp repeat, ArenaContents &contents, Underway &underway) {
    if (!exec::traitsOf(target).takesConditions) { // C18
      return repeat.emitOpError("has a condition, which target ") << stringifyTarget(target) << " does not take";
    }
    const size_t before = underway.size();
    ArenaContents unchanged = contents;
    if (failed(verifyUses(variant, repeat, exec::repeatsAround(repeat), contents, underway)) ||
        failed(verifyInstructions(variant, repeat.getBody().front(), contents, underway)) || failed(underway.finish(before))) {
      return failure();
    }
    contents.keepCommon(unchanged);
    return success();
  }

  // Checks the uses of an instruction's buffers, of those that move all places at once, and notes what it leaves there.
  LogicalResult verifyUses(exec::VariantOp variant, Operation *op, ArrayRef<int64_t> counts, ArenaContents &contents,
                           const Underway &underway) {
    auto repeat = dyn_cast<exec::RepeatOp>(op);
    SmallVector<exec::BufferUse> uses = repeat ? repeat.getUses() : cast<exec::InstrOpInterface>(op).getUses();
    for (exec::BufferUse &use : uses) {
      if (failed(verifyPlace(op, variant, use.buffer)) || failed(verifyMoves(op, use.buffer, counts))) {
        return failure();
      }
      exec::BufferAttr swept = use.buffer.getSwept(counts);
      const bool moves = swept != use.buffer;
      use.buffer = swept;
      if (moves && failed(verifyRange(op, variant, swept))) {
        return failure();
      }
      if (use.isWritten && !isMutable(swept)) { // C3
        return op->emitOpError("writes to the constants at offset ") << swept.getOffset();
      }
      bool isNeeded = use.isRead && isMutable(swept) && needsSources(variant, op);
      if (isNeeded && !(moves ? contents.holdsPart(swept) : contents.holds(swept))) { // C5
        return op->emitOpError("reads ") << byteSize(swept.getType()) << " bytes at offset " << swept.getOffset()
                                         << " of the arena, which no tensor or earlier instruction left there";
      }
      if (!underway.mayUse(use)) { // C12
        return op->emitOpError("uses ") << byteSize(swept.getType()) << " bytes at offset " << swept.getOffset()
                                        << " of the arena while a collective that is under way does";
      }
    }
    const bool writesInput =
        isa<exec::InsertOp>(op) && (overlap(uses[0].buffer, uses[2].buffer) || overlap(uses[1].buffer, uses[2].buffer));
    if (writesInput) { // C17
      return op->emitOpError("writes to its own rows or index at offset ") << uses[2].buffer.getOffset() << " of the arena";
    }
    for (const exec::BufferUse &use : uses) {
      if (use.isWritten) {
        contents.write(use.buffer);
      }
    }
    for (const exec::BufferUse &use : uses) { // C6
      if (use.isWritten && !contents.holds(use.buffer)) {
        return op->emitOpError("writes two buffers that share bytes, one at offset ") << use.buffer.getOffset() << " of the arena";
      }
    }
    return success();
  }

  // Returns the bytes at whose multiples a buffer begins: one that moves where the target takes rows, or at any element in a copy.
  int64_t alignmentOf(Operation *op, exec::BufferAttr buffer) const {
    const int64_t row = isa<exec::CopyOp>(op) ? 1 : exec::traitsOf(target).rowAlignment;
    return buffer.getStrides().empty() ? ASHLAR_RT_ALIGNMENT : std::max(row, elementBytes(buffer.getType().getElementType()));
  }

  // (C16) A buffer moves in repeats that there are, from one place where it may begin to the next.
  LogicalResult verifyMoves(Operation *op, exec::BufferAttr buffer, ArrayRef<int64_t> counts) {
    if (buffer.getStrides().size() > counts.size()) {
      return op->emitOpError("has a buffer that moves in ") << buffer.getStrides().size() << " repeats but is in " << counts.size();
    }
    for (int64_t stride : buffer.getStrides()) {
      if (stride % alignmentOf(op, buffer) != 0) {
        return op->emitOpError("has a buffer that moves by ") << stride << " bytes, not a multiple of " << alignmentOf(op, buffer);
      }
    }
    return success();
  }

  static LogicalResult followTokens(Operation &op, Underway &underway) {
    if (auto wait = dyn_cast<exec::WaitOp>(op)) {
      return underway.wait(wait);
    }
    auto collective = dyn_cast<exec::CollectiveOp>(op);
    return collective && collective.getToken() ? underway.start(collective) : success();
  }

  LogicalResult verifyPlace(Operation *op, exec::VariantOp variant, exec::BufferAttr buffer) {
    std::string fault = findSizeFault(buffer.getType().getShape(), buffer.getType().getElementType());
    if (!fault.empty()) { // C2
      return op->emitOpError(fault);
    }
    if (failed(verifyRange(op, variant, buffer))) {
      return failure();
    }
    const bool isArena = buffer.getSpace() == exec::Space::Arena;
    bool isCoordinate = isArena && buffer.getOffset() < variant.getCoordinatesOffset() + variant.getAxisSizes().size() * sizeof(int64_t);
    if (buffer.getOffset() % alignmentOf(op, buffer) != 0 && !isCoordinate) { // C2
      return op->emitOpError("has a buffer at offset ") << buffer.getOffset() << ", not a multiple of " << alignmentOf(op, buffer);
    }
    return success();
  }

  LogicalResult verifyRange(Operation *op, exec::VariantOp variant, exec::BufferAttr buffer) {
    bool isArena = buffer.getSpace() == exec::Space::Arena, isSlot = buffer.getSpace() == exec::Space::Slot;
    uint64_t limit = isArena ? variant.getArenaBytes() : isSlot ? variant.getSlotBytes() : constantBytes;
    uint64_t bytes = byteSize(buffer.getType());
    if (bytes > limit || buffer.getOffset() > limit - bytes) { // C2
      return op->emitOpError("has a buffer of ") << bytes << " bytes at offset " << buffer.getOffset() << " of "
                                                 << (isArena  ? "an arena"
                                                     : isSlot ? "a slot"
                                                              : "constants")
                                                 << " of " << limit << " bytes";
    }
    return success();
  }

  LogicalResult verifyCall(exec::KernelOp op) {
    auto kernel = symbols.lookup<func::FuncOp>(op.getCallee());
    if (!kernel || !kernel->hasAttr(exec::kExtentAttr)) { // C7
      return op.emitOpError("calls ") << op.getCalleeAttr() << ", which is not a kernel";
    }
    auto [it, isNew] = stores.try_emplace(kernel);
    if (isNew) {
      it->second = storesOf(kernel);
    }
    ArrayRef<Type> types = buffersOf(kernel);
    if (types.size() != op.getBuffers().size()) { // C7
      return op.emitOpError("passes ") << op.getBuffers().size() << " buffers to a kernel of " << types.size();
    }
    for (auto [i, use, type, isStored] : llvm::enumerate(op.getUses(), types, it->second)) {
      if (byteSize(use.buffer.getType()) != byteSize(cast<MemRefType>(type))) { // C7; kernels see tensors flat and bools as bytes
        return op.emitOpError("passes a buffer of type ") << use.buffer.getType() << " where the kernel has " << type;
      }
      const bool isEmpty = byteSize(use.buffer.getType()) == 0; // its stores fold away
      if (use.isWritten != isStored && !isEmpty) {              // C8
        return op.emitOpError("says that it ") << (use.isWritten ? "writes" : "only reads") << " buffer " << i << ", but "
                                               << op.getCalleeAttr() << (isStored ? " stores to it" : " stores nothing there");
      }
    }
    return success();
  }

  ModuleOp module;
  exec::Target target;
  SymbolTable symbols;
  uint64_t constantBytes = 0;
  bool hasOwners = false;                                // in the variant that is checked
  int64_t device = 0;                                    // that is checked
  llvm::DenseMap<Operation *, SmallVector<bool>> stores; // of each kernel
};

struct VerifyExecPass : public impl::VerifyExecPassBase<VerifyExecPass> {
  using VerifyExecPassBase::VerifyExecPassBase;

  void runOnOperation() override {
    if (failed(Verifier(getOperation(), target).verify())) {
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace ashlar::lower

// SPDX-License-Identifier: Apache-2.0
//
// Checks instruction tables by themselves, knowing nothing of how they were planned: every buffer lies inside the arena or the constants,
// every call fits its kernel and says what it writes, and along each program every byte that is read was last written as a part of the same
// buffer.

#include "passes/lower/passes.h"

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_size.h"
#include "runtime/abi/ashlar_rt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>

using namespace mlir;

namespace ashlar::lower {
#define GEN_PASS_DEF_VERIFYEXECPASS
#include "passes/lower/passes.h.inc"

namespace {

// What the bytes of the arena hold: disjoint ranges, each a whole buffer. Reading a buffer of which another one overwrote a part fails.
class ArenaContents {
public:
  // Every range that `buffer` touches is gone, `buffer` is there. O(log n) and the ranges that go.
  void write(exec::BufferAttr buffer) {
    uint64_t begin = buffer.getOffset(), end = begin + byteSize(buffer.getType());
    if (begin == end) {
      return;
    }
    auto it = ranges.lower_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second > begin) {
      --it;
    }
    while (it != ranges.end() && it->first < end) {
      it = ranges.erase(it);
    }
    ranges[begin] = end;
  }

  // Returns whether the bytes of `buffer` are as one write left them. Bools, indices and reshapes may look at them as another type.
  bool holds(exec::BufferAttr buffer) const {
    uint64_t bytes = byteSize(buffer.getType());
    auto it = ranges.find(buffer.getOffset());
    return bytes == 0 || (it != ranges.end() && it->second == buffer.getOffset() + bytes);
  }

private:
  std::map<uint64_t, uint64_t> ranges; // begin -> end
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
  explicit Verifier(ModuleOp module) : module(module), symbols(module) {}

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
  LogicalResult verifyVariant(exec::VariantOp variant) {
    ArenaContents fixed;
    for (size_t axis = 0; axis < variant.getAxisSizes().size(); ++axis) {
      uint64_t offset = variant.getCoordinatesOffset() + axis * sizeof(int64_t);
      fixed.write(exec::BufferAttr::get(module.getContext(), exec::Space::Arena, offset,
                                        MemRefType::get({}, IntegerType::get(module.getContext(), 64))));
    }
    for (auto tensor : variant.getBody().getOps<exec::TensorOp>()) {
      if (failed(verifyPlace(tensor, variant, tensor.getBuffer()))) {
        return failure();
      }
      fixed.write(tensor.getBuffer());
    }
    for (auto tensor : variant.getBody().getOps<exec::TensorOp>()) {
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
    for (Operation &op : program.getBody().front()) {
      auto instr = dyn_cast<exec::InstrOpInterface>(op);
      if (!instr) {
        return op.emitOpError("is not an instruction");
      }
      if (auto kernel = dyn_cast<exec::KernelOp>(op); kernel && failed(verifyCall(kernel))) {
        return failure();
      }
      SmallVector<exec::BufferUse> uses = instr.getUses();
      for (const exec::BufferUse &use : uses) {
        if (failed(verifyPlace(&op, variant, use.buffer))) {
          return failure();
        }
        if (use.isWritten && use.buffer.getSpace() == exec::Space::Constant) { // C3
          return op.emitOpError("writes to the constants at offset ") << use.buffer.getOffset();
        }
        if (use.isRead && use.buffer.getSpace() == exec::Space::Arena && !contents.holds(use.buffer)) { // C5
          return op.emitOpError("reads ") << byteSize(use.buffer.getType()) << " bytes at offset " << use.buffer.getOffset()
                                          << " of the arena, which no tensor or earlier instruction left there";
        }
      }
      for (const exec::BufferUse &use : uses) {
        if (use.isWritten) {
          contents.write(use.buffer);
        }
      }
      for (const exec::BufferUse &use : uses) { // C6
        if (use.isWritten && !contents.holds(use.buffer)) {
          return op.emitOpError("writes two buffers that share bytes, one at offset ") << use.buffer.getOffset() << " of the arena";
        }
      }
    }
    return success();
  }

  LogicalResult verifyPlace(Operation *op, exec::VariantOp variant, exec::BufferAttr buffer) {
    bool isArena = buffer.getSpace() == exec::Space::Arena;
    uint64_t limit = isArena ? variant.getArenaBytes() : constantBytes;
    uint64_t bytes = byteSize(buffer.getType());
    std::string fault = findSizeFault(buffer.getType().getShape(), buffer.getType().getElementType());
    if (!fault.empty()) { // C2
      return op->emitOpError(fault);
    }
    if (bytes > limit || buffer.getOffset() > limit - bytes) { // C2
      return op->emitOpError("has a buffer of ") << bytes << " bytes at offset " << buffer.getOffset() << " of "
                                                 << (isArena ? "an arena" : "constants") << " of " << limit << " bytes";
    }
    bool isCoordinate = isArena && buffer.getOffset() < variant.getCoordinatesOffset() + variant.getAxisSizes().size() * sizeof(int64_t);
    if (buffer.getOffset() % ASHLAR_RT_ALIGNMENT != 0 && !isCoordinate) { // C2
      return op->emitOpError("has a buffer at offset ") << buffer.getOffset() << ", not a multiple of " << ASHLAR_RT_ALIGNMENT;
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
      if (use.isWritten != isStored) { // C8
        return op.emitOpError("says that it ") << (use.isWritten ? "writes" : "only reads") << " buffer " << i << ", but "
                                               << op.getCalleeAttr() << (isStored ? " stores to it" : " stores nothing there");
      }
    }
    return success();
  }

  ModuleOp module;
  SymbolTable symbols;
  uint64_t constantBytes = 0;
  llvm::DenseMap<Operation *, SmallVector<bool>> stores; // of each kernel
};

struct VerifyExecPass : public impl::VerifyExecPassBase<VerifyExecPass> {
  using VerifyExecPassBase::VerifyExecPassBase;

  void runOnOperation() override {
    if (failed(Verifier(getOperation()).verify())) {
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace ashlar::lower

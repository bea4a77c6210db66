// SPDX-License-Identifier: Apache-2.0
//
// One exec op for each instruction: kernel, library call, collective, wait or copy.

#include "passes/lower/memory/instruction_emitter.h"

#include "passes/lower/calls/library_call.h"

#include "dialects/exec/spans.h"
#include "dialects/nn/repeat.h"

#include "runtime/abi/ashlar_rt.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::lower {
namespace {

class Emitter {
public:
  Emitter(OpBuilder &builder, const Program &program, KernelPool &kernels, dist::MeshAttr mesh, bool allowTf32)
      : builder(builder), program(program), kernels(kernels), mesh(mesh), allowTf32(allowTf32) {}

  // Emits an instruction, with who runs it, its predicted time and its traffic.
  LogicalResult emit(const Instruction &instruction) {
    if (failed(emitOp(instruction))) {
      return failure();
    }
    Block *block = builder.getInsertionBlock();
    if (instruction.owner) {
      block->back().setAttr(exec::kOwnerAttr, builder.getI64IntegerAttr(*instruction.owner));
    }
    for (StringRef number : {exec::kTimeAttr, exec::kMessagesAttr, exec::kSentAttr}) { // of what ashlar-estimate-programs has seen
      if (Attribute found = instruction.op ? instruction.op->getAttr(number) : Attribute()) {
        block->back().setAttr(number, found);
      }
    }
    if (Attribute span = instruction.op ? instruction.op->getAttr(exec::kSpanAttr) : Attribute()) {
      Operation *made = isa<nn::RepeatOp>(instruction.op) ? block->getParentOp() : &block->back();
      made->setAttr(exec::kSpanAttr, span);
    }
    return success();
  }

private:
  LogicalResult emitOp(const Instruction &instruction) {
    if (!instruction.op) {
      exec::CopyOp::create(builder, instruction.loc, source(instruction, 0), target(instruction, 0));
      return success();
    }
    return TypeSwitch<Operation *, LogicalResult>(instruction.op)
        .Case([&](exec::FusionOp op) {
          const LibraryCall *call = findCall(op.getKind());
          return call ? emitCall(instruction, op, *call) : emitKernel(instruction, op);
        })
        .Case([&](exec::AwaitOp op) {
          exec::WaitOp::create(builder, op.getLoc(), tokens.lookup(op.getStarted().front().getDefiningOp()));
          return success();
        })
        .Case([&](nn::RepeatOp op) {
          const int64_t count = op.getCount();
          exec::BufferAttr condition = instruction.operands.empty() ? exec::BufferAttr() : source(instruction, 0);
          builder.createBlock(&exec::RepeatOp::create(builder, op.getLoc(), count, condition).getBody());
          return success();
        })
        .Case([&](nn::YieldOp) {
          builder.setInsertionPointAfter(builder.getInsertionBlock()->getParentOp());
          return success();
        })
        .Case([&](dist::AllGatherOp op) { return emitCollective(instruction, op, zerosFor(op), op.getDims()); })
        .Case([&](dist::ReduceScatterOp op) { return emitCollective(instruction, op, op.getDims(), zerosFor(op)); })
        .Case([&](dist::AllToAllOp op) {
          int64_t split = op.getSplitDim(), concat = op.getConcatDim();
          return emitCollective(instruction, op, split, concat);
        })
        .Case([&](dist::PermuteOp op) { return emitCollective(instruction, op, zerosFor(op), zerosFor(op), pairsOf(op.getSources())); })
        .Case([&](dist::BroadcastOp op) { return emitCollective(instruction, op, zerosFor(op), zerosFor(op), {}, op.getRoot()); })
        .Case([&](dist::HaloOp op) {
          int64_t dim = op.getDim();
          return emitCollective(instruction, op, dim, zerosFor(op), {}, /*root=*/0, segmentsOf(dist::haloOf(op)));
        })
        .Case([&](dist::CollectiveOpInterface op) { return emitCollective(instruction, op, zerosFor(op), zerosFor(op)); })
        .Case([&](dist::SliceOp op) {
          int64_t dim = op.getDim();
          return emitCollective(instruction, CollectiveKind::Slice, op.getAxes(), Reduction::Sum, dim, zerosFor(op), /*cause=*/{});
        })
        .Default([](Operation *op) { return op->emitOpError("has no instruction"); });
  }

  exec::BufferAttr buffer(unsigned index, Type type) const {
    const Storage &storage = program.storages[index];
    auto tensor = cast<RankedTensorType>(type);
    auto memref = MemRefType::get(tensor.getShape(), tensor.getElementType());
    uint64_t offset = storage.offset;
    for (std::optional<unsigned> rows = storage.rows; rows; rows = program.storages[*rows].rows) {
      offset += program.storages[*rows].offset;
    }
    return exec::BufferAttr::get(builder.getContext(), storage.space, offset, memref, storage.strides);
  }
  exec::BufferAttr source(const Instruction &instruction, unsigned i) const {
    return buffer(instruction.operands[i], instruction.operandTypes[i]);
  }
  exec::BufferAttr target(const Instruction &instruction, unsigned i) const {
    return buffer(instruction.results[i], instruction.resultTypes[i]);
  }

  LogicalResult emitKernel(const Instruction &instruction, exec::FusionOp fusion) {
    FailureOr<func::FuncOp> kernel = kernels.kernelFor(fusion, instruction.alias);
    if (failed(kernel)) {
      return failure();
    }
    SmallVector<Attribute> buffers;
    SmallVector<int64_t> reads, writes;
    for (unsigned i = 0; i < instruction.operands.size(); ++i) {
      reads.push_back(buffers.size());
      buffers.push_back(source(instruction, i));
    }
    for (unsigned i = 0; i < instruction.results.size(); ++i) {
      bool isInPlace = instruction.alias[i] >= 0;
      writes.push_back(isInPlace ? instruction.alias[i] : buffers.size());
      if (!isInPlace) {
        buffers.push_back(target(instruction, i));
      }
    }
    auto count = [&](StringRef name) { return (*kernel)->getAttrOfType<IntegerAttr>(name).getInt(); };
    exec::KernelOp::create(builder, instruction.loc, kernel->getSymName(), builder.getArrayAttr(buffers), reads, writes,
                           count(exec::kExtentAttr), count(exec::kGrainAttr));
    return success();
  }

  LogicalResult emitCall(const Instruction &instruction, exec::FusionOp fusion, const LibraryCall &call) {
    auto numbers = [](size_t count) { return llvm::seq<unsigned>(0, count); };
    auto operands = llvm::map_to_vector(numbers(instruction.operands.size()), [&](unsigned i) { return source(instruction, i); });
    auto results = llvm::map_to_vector(numbers(instruction.results.size()), [&](unsigned i) { return target(instruction, i); });
    return call.build({builder, instruction.loc, fusion, operands, results, allowTf32});
  }

  // Returns the {source, target} pairs of a permute in which device r gets what device sources[r] has.
  DenseI64ArrayAttr pairsOf(ArrayRef<int64_t> sources) {
    SmallVector<int64_t> pairs;
    for (auto [target, source] : llvm::enumerate(sources)) {
      pairs.append({source, static_cast<int64_t>(target)});
    }
    return builder.getDenseI64ArrayAttr(pairs);
  }

  // Returns the numbers of a halo as exec.collective has them.
  DenseI64ArrayAttr segmentsOf(const dist::Halo &halo) {
    SmallVector<int64_t> numbers = {halo.size};
    for (const dist::Segments &segments : {halo.from, halo.to}) {
      numbers.append({segments.positions, segments.access.step, segments.access.first, segments.access.last});
    }
    return builder.getDenseI64ArrayAttr(numbers);
  }

  // The dims of a list of operands that have none.
  static SmallVector<int64_t> zerosFor(Operation *op) { return SmallVector<int64_t>(op->getNumOperands(), 0); }

  LogicalResult emitCollective(const Instruction &instruction, dist::CollectiveOpInterface op, ArrayRef<int64_t> splitDims,
                               ArrayRef<int64_t> concatDims, DenseI64ArrayAttr pairs = {}, int64_t root = 0,
                               DenseI64ArrayAttr segments = {}) {
    Reduction reduction = op.getReductionKind().value_or(Reduction::Sum);
    return emitCollective(instruction, op.getCollectiveKind(), op.getAxes(), reduction, splitDims, concatDims, op.getCauseAttr(), pairs,
                          root, segments);
  }

  LogicalResult emitCollective(const Instruction &instruction, CollectiveKind kind, ArrayAttr axes, Reduction reduction,
                               ArrayRef<int64_t> splitDims, ArrayRef<int64_t> concatDims, ArrayAttr cause, DenseI64ArrayAttr pairs = {},
                               int64_t root = 0, DenseI64ArrayAttr segments = {}) {
    SmallVector<Attribute> sources, targets;
    for (unsigned i = 0; i < instruction.operands.size(); ++i) {
      sources.push_back(source(instruction, i));
      targets.push_back(target(instruction, i));
      int64_t rank = source(instruction, i).getType().getRank();
      if (rank > ASHLAR_RT_MAX_RANK) {
        return instruction.op->emitError() << stringifyCollectiveKind(kind) << " of a tensor of rank " << rank << " but the limit is "
                                           << ASHLAR_RT_MAX_RANK << "; reshape it in the model";
      }
    }
    SmallVector<int64_t> indices;
    for (StringAttr axis : axes.getAsRange<StringAttr>()) {
      std::optional<unsigned> position = mesh ? mesh.findAxis(axis) : std::nullopt;
      if (!position) {
        return instruction.op->emitOpError("needs a mesh with the axis ") << axis;
      }
      indices.push_back(*position);
    }
    auto overlap = instruction.op->getAttrOfType<exec::OverlapAttr>(exec::kOverlapAttr);
    IntegerAttr token; // of one that is waited for later
    if (overlap) {
      int64_t number = tokens.size() + 1;
      tokens[instruction.op] = number;
      token = builder.getI64IntegerAttr(number);
    }
    exec::CollectiveOp::create(builder, instruction.loc, kind, builder.getArrayAttr(sources), builder.getArrayAttr(targets), indices,
                               reduction, splitDims, concatDims, cause, pairs, segments, root, token, overlap);
    return success();
  }

  OpBuilder &builder;
  const Program &program;
  KernelPool &kernels;
  dist::MeshAttr mesh;
  bool allowTf32;
  DenseMap<Operation *, int64_t> tokens; // of collectives that run beside others
};

} // namespace

LogicalResult emitInstructions(OpBuilder &builder, const Program &program, KernelPool &kernels, dist::MeshAttr mesh, bool allowTf32) {
  Emitter emitter(builder, program, kernels, mesh, allowTf32);
  for (const Instruction &instruction : program.instructions) {
    if (failed(emitter.emit(instruction))) {
      return failure();
    }
  }
  return success();
}

} // namespace ashlar::lower

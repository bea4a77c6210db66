// SPDX-License-Identifier: Apache-2.0
//
// Turns the functions of a module into the programs of one exec.variant: instructions on buffers of one arena. The named tensors come
// first, the temporaries of all programs share what follows, since only one program runs at a time.

#include "dialects/dist/stages.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/programs.h"
#include "dialects/nn/repeat/repeats.h"
#include "passes/analysis/costs.h"
#include "passes/lower/calls/library_call.h"
#include "passes/lower/memory/fixed_weights.h"
#include "passes/lower/memory/instruction_emitter.h"
#include "passes/lower/memory/memory_limit.h"
#include "passes/lower/memory/program.h"
#include "passes/lower/passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ashlar::lower {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "passes/lower/passes.h.inc"

namespace {

// A splat of at least this many bytes is computed by a kernel rather than kept as a constant when a program stores it.
constexpr int64_t kLargeSplatBytes = 256;

// Wraps ops that `build` makes into a loop fusion with the given operands and returns its result.
template <typename Build> Value buildLoopFusion(OpBuilder &builder, Location loc, ValueRange operands, Type result, Build build) {
  auto fusion = exec::FusionOp::create(builder, loc, TypeRange(result), exec::FusionKind::Loop, operands);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&fusion.getBody(), {}, operands.getTypes(), SmallVector<Location>(operands.size(), loc));
  Value yielded = build(block->getArguments());
  exec::YieldOp::create(builder, loc, yielded);
  return fusion.getResult(0);
}

// Replaces an index along several axes by a kernel on the indices along each: ((i0 * size1) + i1) * size2 + i2 ...
void splitAxisIndex(dist::AxisIndexOp op, dist::MeshAttr mesh) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<Value> indices;
  for (Attribute axis : op.getAxes()) {
    indices.push_back(dist::AxisIndexOp::create(builder, loc, type, builder.getArrayAttr(axis)));
  }
  Value combined = buildLoopFusion(builder, loc, indices, type, [&](ArrayRef<BlockArgument> arguments) {
    Value sum = arguments[0];
    for (auto [argument, axis] : llvm::drop_begin(llvm::zip_equal(arguments, op.getAxes()))) {
      double size = mesh.axisSize(cast<StringAttr>(axis));
      sum = nn::MulOp::create(builder, loc, sum, nn::ConstantOp::create(builder, loc, nn::splat(type, size)));
      sum = nn::AddOp::create(builder, loc, sum, argument);
    }
    return sum;
  });
  op.replaceAllUsesWith(combined);
  op.erase();
}

// Replaces the uses of a large splat by writes, the slot, repeats, their yields and the return with a kernel's result, which is then
// computed in place.
void storeSplatByKernel(nn::ConstantOp op) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!elements || !elements.isSplat() ||
      elements.getNumElements() * elements.getElementType().getIntOrFloatBitWidth() < 8 * kLargeSplatBytes) {
    return;
  }
  for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
    if (!isa<nn::WriteOp, dist::SlotOpInterface, func::ReturnOp, nn::RepeatOp, nn::YieldOp>(use.getOwner())) {
      continue;
    }
    OpBuilder builder(use.getOwner());
    use.set(buildLoopFusion(builder, op.getLoc(), {}, op.getType(), [&](ArrayRef<BlockArgument>) {
      return nn::ConstantOp::create(builder, op.getLoc(), op.getValue()).getResult();
    }));
  }
}

// Has a kernel put a constant into the arena for each collective that takes it: there members, and the network, read it.
void storeForCollectives(nn::ConstantOp op) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  bool isSplat = elements && elements.isSplat();
  for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
    if (!isa<dist::CollectiveOpInterface>(use.getOwner())) {
      continue;
    }
    OpBuilder builder(use.getOwner());
    ValueRange operands = op->getResults();
    use.set(buildLoopFusion(builder, op.getLoc(), isSplat ? ValueRange() : operands, op.getType(), [&](ArrayRef<BlockArgument> arguments) {
      return isSplat ? nn::ConstantOp::create(builder, op.getLoc(), op.getValue()).getResult() : Value(arguments[0]);
    }));
  }
}

// Drops what nobody uses and rewrites what has no instruction of its own.
void prepare(Block &body, dist::MeshAttr mesh) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body))) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
    }
  }
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (auto fusion = dyn_cast<exec::FusionOp>(op); fusion && !findCall(fusion.getKind())) {
      // Names of ONNX tensors and the like would keep equal kernels apart.
      fusion.getBody().walk([](Operation *inner) { inner->setDiscardableAttrs(ArrayRef<NamedAttribute>()); });
    } else if (auto index = dyn_cast<dist::AxisIndexOp>(op); index && index.getAxes().size() > 1) {
      splitAxisIndex(index, mesh);
    } else if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      storeSplatByKernel(constant);
      storeForCollectives(constant);
      if (constant.use_empty()) {
        constant.erase();
      }
    }
  }
}

// What the temporaries may take more so that tensors of one all-reduce lie side by side: a part of all, or what no device misses.
constexpr uint64_t kRunSlackPart = 32, kLeastRunSlack = 64 << 10;

uint64_t runSlack(const std::vector<Lifetime> &lifetimes) {
  return std::max(kLeastRunSlack, largestLiveSet(lifetimes) / kRunSlackPart);
}

// Gives the temporaries of a program their offsets from `base` on; returns the bytes they span and can never be below. `isLimited`: every
// byte counts.
FailureOr<std::pair<uint64_t, uint64_t>> placeTemporaries(Program &program, uint64_t base, bool isLimited) {
  auto [lifetimes, storages] = program.temporaries();
  ArenaPlan plan = packArena(lifetimes, program.temporaryRuns(), isLimited ? 0 : runSlack(lifetimes));
  if (auto overlap = findOverlap(lifetimes, plan.offsets)) {
    const Lifetime &a = lifetimes[overlap->first], &b = lifetimes[overlap->second];
    return program.function.emitOpError("has a memory plan in which two buffers alive at once overlap: ")
           << a.bytes << " bytes at " << plan.offsets[overlap->first] << " and " << b.bytes << " bytes at "
           << plan.offsets[overlap->second];
  }
  for (auto [storage, offset] : llvm::zip_equal(storages, plan.offsets)) {
    program.storages[storage].offset = base + offset;
  }
  program.temporaryBytes = plan.bytes;
  return std::make_pair(plan.bytes, largestLiveSet(lifetimes));
}

struct PlanMemoryPass : public impl::PlanMemoryPassBase<PlanMemoryPass> {
  using PlanMemoryPassBase::PlanMemoryPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::findMesh(module);
    meshAttr = mesh ? mesh.getMesh() : dist::MeshAttr();
    deviceIds = mesh ? mesh.getDeviceIdsAttr() : DenseI64ArrayAttr();
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isPublic() && !function.isDeclaration()) {
        functions.push_back(function);
      }
    }
    TensorTable tensors(mesh);
    ConstantPool constants;
    std::vector<Program> programs;
    if (failed(tensors.addVariables(module)) || failed(checkDevices(module)) ||
        failed(buildPrograms(functions, tensors, constants, programs)) || failed(emitVariant(module, tensors, programs)) ||
        failed(checkMemory(module, tensors, constants, programs))) {
      return signalPassFailure();
    }
    constants.write(module);
    for (func::FuncOp function : functions) {
      function.erase();
    }
    for (Operation &op : llvm::make_early_inc_range(*module.getBody())) {
      if (isa<nn::VariableOp, dist::MeshOp>(op)) {
        op.erase();
      }
    }
  }

private:
  LogicalResult checkDevices(ModuleOp module) {
    int64_t devices = meshAttr ? meshAttr.numDevices() : 1;
    if (devicesPerProcess < 1 || devices % devicesPerProcess != 0) {
      return module.emitError("devices-per-process is ")
             << devicesPerProcess.getValue() << ", which does not divide the " << devices << " devices of the mesh";
    }
    return success();
  }

  LogicalResult checkMemory(ModuleOp module, const TensorTable &tensors, const ConstantPool &constants, ArrayRef<Program> programs) {
    if (memoryLimit == 0) {
      return success();
    }
    exec::VariantOp variant = *module.getOps<exec::VariantOp>().begin();
    MemoryUse use = memoryUse(variant, {target, constants.getBytes(), ranksPerHost});
    if (use.bytes() > static_cast<uint64_t>(memoryLimit) && use.spareBytes != 0) { // weights that are ordered once are there twice
      unmarkFixedWeights(variant);
      use = memoryUse(variant, {target, constants.getBytes(), ranksPerHost});
    }
    return checkMemoryLimit(module, use, memoryLimit, tensors, programs, variant);
  }

  LogicalResult buildPrograms(ArrayRef<func::FuncOp> functions, TensorTable &tensors, ConstantPool &constants,
                              std::vector<Program> &programs) {
    for (func::FuncOp function : functions) {
      nn::visitBlocks(function.front(), [&](Block &block) { prepare(block, meshAttr); });
      if (failed(tensors.addSignature(function))) {
        return failure();
      }
    }
    for (func::FuncOp function : functions) {
      FailureOr<Program> program = buildProgram(function, tensors, constants, meshAttr, target);
      if (failed(program)) {
        return failure();
      }
      programs.push_back(std::move(*program));
    }
    const uint64_t tensorBytes = tensors.bytes() + numSlots() * tensors.slotBytes();
    arenaBytes = lowerBound = tensorBytes;
    for (Program &program : programs) {
      FailureOr<std::pair<uint64_t, uint64_t>> bytes = placeTemporaries(program, tensorBytes, memoryLimit != 0);
      if (failed(bytes)) {
        return failure();
      }
      arenaBytes = std::max(arenaBytes, tensorBytes + bytes->first);
      lowerBound = std::max(lowerBound, tensorBytes + bytes->second);
    }
    return success();
  }

  LogicalResult emitVariant(ModuleOp module, TensorTable &tensors, MutableArrayRef<Program> programs) {
    ImplicitLocOpBuilder builder(module.getLoc(), &getContext());
    builder.setInsertionPointToEnd(module.getBody());
    auto axes = meshAttr ? llvm::to_vector_of<Attribute>(meshAttr.getAxes()) : SmallVector<Attribute>();
    auto sizes = meshAttr ? meshAttr.getSizes() : ArrayRef<int64_t>();
    dist::StageAttr stage = stageOf(module);
    std::string symbol = stage ? (variantName + "_" + Twine(stage.getIndex())).str() : variantName.getValue();
    auto variant = exec::VariantOp::create(
        builder, symbol, arenaBytes, lowerBound, builder.getArrayAttr(axes), sizes, devicesPerProcess, TensorTable::coordinateOffset(0),
        deviceIds, stage ? builder.getStringAttr(variantName.getValue()) : StringAttr(), stage ? stage.getIndex() : 0,
        stage ? stage.getCount() : 1, stage ? tensors.bytes() : 0, tensors.slotBytes(), stage ? stage.getSlots() : 1,
        module->hasAttr(dist::kOrderAttr) ? orderOf(builder, module) : ArrayAttr());
    addLinks(builder, module, variant);
    builder.createBlock(&variant.getBody());
    SmallVector<StringRef> programNames;
    for (Program &program : programs) {
      programNames.push_back(program.function.getSymName());
    }
    std::vector<std::string> symbols = tensors.symbols(programNames);
    emitTensors(builder, tensors, symbols);
    KernelPool kernels(module, symbol == "default" ? "" : symbol + "_", target);
    for (Program &program : programs) {
      auto references = [&](ArrayRef<unsigned> indices) {
        return builder.getArrayAttr(
            llvm::map_to_vector(indices, [&](unsigned i) -> Attribute { return FlatSymbolRefAttr::get(&getContext(), symbols[i]); }));
      };
      OpBuilder::InsertionGuard guard(builder);
      auto op =
          exec::ProgramOp::create(builder, program.function.getLoc(), program.function.getSymName(),
                                  references(withPassed(program.function, tensors, tensors.inputs(program.function), /*sources=*/true)),
                                  references(withPassed(program.function, tensors, tensors.outputs(program.function), /*sources=*/false)),
                                  transfersOf(builder, program.function, tensors, symbols, /*received=*/true),
                                  transfersOf(builder, program.function, tensors, symbols, /*received=*/false),
                                  program.function->getAttrOfType<IntegerAttr>(exec::kPredictedAttr),
                                  program.function->getAttrOfType<IntegerAttr>(exec::kComputingAttr),
                                  builder.getI64IntegerAttr(static_cast<int64_t>(program.temporaryBytes)));
      if (nn::ProgramAttr role = nn::programOf(program.function)) {
        op->setAttr(nn::kProgramAttr, role);
      }
      if (auto other = program.function->getAttrOfType<IntegerAttr>(exec::kOtherTimeAttr)) {
        op->setAttr(exec::kOtherTimeAttr, other);
      }
      builder.createBlock(&op.getBody());
      if (failed(emitInstructions(builder, program, kernels, meshAttr, allowTf32))) {
        return failure();
      }
    }
    if (exec::traitsOf(target).ordersWeights) {
      markFixedWeights(variant);
    }
    return success();
  }

  // Notes the links for which the programs' times were predicted: without a mesh on hosts nothing.
  void addLinks(OpBuilder &builder, ModuleOp module, exec::VariantOp variant) {
    dist::MeshOp mesh = dist::findMesh(module);
    if (!mesh || !mesh.getHostsAttr() || !mesh.getCostsAttr()) {
      return;
    }
    SmallVector<analysis::Link> stages;
    for (int64_t from = 0; from < static_cast<int64_t>(variant.getNumStages()); ++from) {
      stages.push_back(
          analysis::stageLink(mesh.getHostsAttr(), mesh.getMesh().numDevices(), from, static_cast<int64_t>(variant.getStage())));
    }
    variant->setAttr(exec::kHostsAttr, mesh.getHostsAttr());
    variant->setAttr(exec::kLinksAttr, mesh.getCostsAttr());
    variant->setAttr(exec::kStageLinksAttr, analysis::costsOf(&getContext(), stages));
    variant->setAttr(exec::kHandOverAttr, builder.getI64IntegerAttr(exec::traitsOf(target).handOverPs));
  }

  static dist::StageAttr stageOf(ModuleOp module) { return module->getAttrOfType<dist::StageAttr>(dist::kStageAttr); }

  int64_t numSlots() {
    dist::StageAttr stage = stageOf(getOperation());
    return stage ? stage.getSlots() : 1;
  }

  // Returns the order of a step as the variant has it.
  static ArrayAttr orderOf(OpBuilder &builder, ModuleOp module) {
    MLIRContext *context = module.getContext();
    auto order = module->getAttrOfType<ArrayAttr>(dist::kOrderAttr);
    const DenseSet<Attribute> takers = findBatchTakers(module, order);
    return builder.getArrayAttr(llvm::map_to_vector(order.getAsRange<dist::RepeatAttr>(), [&](dist::RepeatAttr part) -> Attribute {
      auto runs = llvm::map_to_vector(part.getRuns().getAsRange<dist::RunAttr>(), [&](dist::RunAttr run) -> Attribute {
        return exec::RunAttr::get(context, FlatSymbolRefAttr::get(run.getProgram()), run.getMicroBatch(),
                                  takers.contains(run.getProgram()));
      });
      return exec::RepeatAttr::get(context, builder.getArrayAttr(runs), part.getCount(), part.getStride());
    }));
  }

  // Returns the programs that take the batch of a micro-batch: those that are its first, where any program has inputs.
  static DenseSet<Attribute> findBatchTakers(ModuleOp module, ArrayAttr order) {
    DenseSet<Attribute> takers;
    llvm::DenseSet<int64_t> begun; // micro-batches
    bool hasInputs = false;
    for (auto part : order.getAsRange<dist::RepeatAttr>()) {
      for (int64_t round = 0; round < part.getCount(); ++round) {
        for (auto run : part.getRuns().getAsRange<dist::RunAttr>()) {
          auto program = module.lookupSymbol<func::FuncOp>(run.getProgram());
          const bool isAlone = nn::hasRole(program, nn::ProgramRole::Prepare) || nn::hasRole(program, nn::ProgramRole::Update);
          if (!isAlone && begun.insert(run.getMicroBatch() + round * part.getStride()).second) {
            takers.insert(run.getProgram());
          }
          hasInputs |= round == 0 && program.getNumArguments() > 0;
        }
      }
    }
    return hasInputs ? takers : DenseSet<Attribute>();
  }

  // Returns tensors of a program's signature, and those of what it takes from the slot, or of what it puts there.
  static SmallVector<unsigned> withPassed(func::FuncOp function, const TensorTable &tensors, ArrayRef<unsigned> own, bool sources) {
    SmallVector<unsigned> all(own);
    for (auto op : function.front().getOps<dist::SlotOpInterface>()) {
      if (op.isSource() == sources) {
        all.push_back(tensors.passed(op.getSlot()));
      }
    }
    return all;
  }

  // Returns what goes between a program and other stages: what it gets, or what it sends; null for nothing.
  static ArrayAttr transfersOf(OpBuilder &builder, func::FuncOp function, const TensorTable &tensors, ArrayRef<std::string> symbols,
                               bool received) {
    SmallVector<Attribute> transfers;
    for (auto op : function.front().getOps<dist::TransferOpInterface>()) {
      for (dist::PeerAttr peer : op.isSource() == received ? op.getPeers() : SmallVector<dist::PeerAttr>()) {
        auto tensor = FlatSymbolRefAttr::get(builder.getContext(), symbols[tensors.passed(op.getSlot())]);
        transfers.push_back(exec::TransferAttr::get(builder.getContext(), tensor, peer.getStage(), peer.getChannel()));
      }
    }
    return transfers.empty() ? ArrayAttr() : builder.getArrayAttr(transfers);
  }

  void emitTensors(ImplicitLocOpBuilder &builder, const TensorTable &tensors, ArrayRef<std::string> symbols) {
    for (auto [tensor, symbol] : llvm::zip_equal(tensors.tensors(), symbols)) {
      auto memref = MemRefType::get(tensor.type.getShape(), tensor.type.getElementType());
      auto buffer = exec::BufferAttr::get(&getContext(), tensor.isInSlot ? exec::Space::Slot : exec::Space::Arena, tensor.offset, memref);
      auto splits =
          llvm::map_to_vector(tensor.splits, [&](ArrayRef<int64_t> axes) -> Attribute { return builder.getDenseI64ArrayAttr(axes); });
      auto outsideName = tensor.name == symbol ? StringAttr() : builder.getStringAttr(tensor.name);
      bool persistent = (tensor.role == exec::Role::Variable || tensor.role == exec::Role::State) && !tensor.isScratch;
      auto op = exec::TensorOp::create(builder, tensor.loc, symbol, tensor.role, buffer, tensor.globalShape, builder.getArrayAttr(splits),
                                       outsideName, persistent, tensor.stateOf, tensor.isInternal, tensor.counts);
      if (tensor.owner) {
        op->setAttr(exec::kOwnerAttr, builder.getI64IntegerAttr(*tensor.owner));
      }
    }
  }

  dist::MeshAttr meshAttr;
  DenseI64ArrayAttr deviceIds;
  uint64_t arenaBytes = 0, lowerBound = 0;
};

} // namespace
} // namespace ashlar::lower

// SPDX-License-Identifier: Apache-2.0
//
// func.func -> gpu.func -> NVVM dialect -> LLVM IR. Kernels whose indices stay small compute them in 32 bits, which GPUs do natively; the
// others form a module of their own, since the width is one of a module. Functions are libdevice's.

#include "compiler/target/cuda/translate_kernels.h"

#include "compiler/target/arithmetic.h"
#include "compiler/target/cuda/ptx.h"
#include "dialects/exec/exec.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Linker/Linker.h"

using namespace mlir;

namespace ashlar::cuda {
namespace {

constexpr int64_t kAlignment = 64;       // of operands, ASHLAR_RT_ALIGNMENT
constexpr int64_t kAlignedElements = 16; // operands of at least so many are whole buffers; a mesh coordinate is one element inside one

// Whether all indices of a kernel are below 2^31, with room for a step beyond the end: so are its buffers, the elements that its threads
// hold together, at most 16 at a time, and every constant it counts with.
bool hasSmallIndices(func::FuncOp kernel) {
  constexpr int64_t kSmall = int64_t(1) << 30, kElementsPerThread = 16;
  int64_t blocks = kernel->getAttrOfType<IntegerAttr>(exec::kExtentAttr).getInt();
  int64_t threads = kernel->getAttrOfType<IntegerAttr>(exec::kGrainAttr).getInt();
  bool small = blocks * threads * kElementsPerThread < 2 * kSmall;
  for (Type type : kernel.getArgumentTypes()) {
    small &= cast<MemRefType>(type).getNumElements() < kSmall;
  }
  kernel.walk([&](arith::ConstantOp constant) {
    auto value = dyn_cast<IntegerAttr>(constant.getValue());
    small &= !constant.getType().isIndex() || std::abs(value.getInt()) < kSmall;
  });
  return small;
}

// Checks that the grid of a kernel is one that a GPU can run.
LogicalResult checkGrid(func::FuncOp kernel) {
  constexpr int64_t kMostBlocks = INT32_MAX, kMostThreads = 1024;
  int64_t blocks = kernel->getAttrOfType<IntegerAttr>(exec::kExtentAttr).getInt();
  int64_t threads = kernel->getAttrOfType<IntegerAttr>(exec::kGrainAttr).getInt();
  if (blocks < 1 || blocks > kMostBlocks || threads < 1 || threads > kMostThreads) {
    return kernel.emitOpError("has a grid of ")
           << blocks << " blocks of " << threads << " threads; a GPU runs 1 to " << kMostBlocks << " blocks of 1 to " << kMostThreads;
  }
  return success();
}

// Makes shared memory, buffers that a kernel allocates in its entry block, arguments as gpu.func has them.
void moveSharedMemory(gpu::GPUFuncOp kernel) {
  for (auto alloca : llvm::make_early_inc_range(kernel.getBody().front().getOps<memref::AllocaOp>())) {
    auto space = dyn_cast_or_null<gpu::AddressSpaceAttr>(alloca.getType().getMemorySpace());
    if (!space || space.getValue() != gpu::AddressSpace::Workgroup) {
      continue;
    }
    BlockArgument shared = kernel.addWorkgroupAttribution(alloca.getType(), alloca.getLoc());
    if (IntegerAttr alignment = alloca.getAlignmentAttr()) {
      kernel.setWorkgroupAttributionAttr(kernel.getNumWorkgroupAttributions() - 1, LLVM::LLVMDialect::getAlignAttrName(), alignment);
    }
    alloca.replaceAllUsesWith(shared);
    alloca.erase();
  }
}

// Builds the gpu.func of a kernel. Its buffers never overlap: an operand that is overwritten is passed once.
void buildGpuFunction(OpBuilder &builder, func::FuncOp function) {
  OpBuilder::InsertionGuard guard(builder);
  auto kernel = gpu::GPUFuncOp::create(builder, function.getLoc(), function.getName(), function.getFunctionType());
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  int32_t blocks = function->getAttrOfType<IntegerAttr>(exec::kExtentAttr).getInt();
  int32_t threads = function->getAttrOfType<IntegerAttr>(exec::kGrainAttr).getInt();
  kernel.setKnownGridSizeAttr(builder.getDenseI32ArrayAttr({blocks, 1, 1}));
  kernel.setKnownBlockSizeAttr(builder.getDenseI32ArrayAttr({threads, 1, 1}));
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    kernel.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    if (cast<MemRefType>(type).getNumElements() >= kAlignedElements) {
      kernel.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(kAlignment));
    }
  }
  auto copy = cast<func::FuncOp>(function->clone());
  kernel.getBody().takeBody(copy.getBody());
  copy.erase();
  kernel.walk([&](func::ReturnOp op) {
    builder.setInsertionPoint(op);
    gpu::ReturnOp::create(builder, op.getLoc());
    op.erase();
  });
  moveSharedMemory(kernel);
}

// Gives arithmetic its flags: floating-point as on every target; indices never overflow, so that constant offsets leave the
// computation of an address and neighbouring accesses become one.
struct SetArithmeticFlags : PassWrapper<SetArithmeticFlags, OperationPass<gpu::GPUModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SetArithmeticFlags)

  StringRef getArgument() const final { return "ashlar-cuda-arithmetic-flags"; }

  void runOnOperation() final {
    getOperation().walk([&](Operation *op) {
      if (auto math = dyn_cast<arith::ArithFastMathInterface>(op)) {
        target::setFastMathFlags(math);
      }
      if (auto integer = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op); integer && op->getResult(0).getType().isIndex()) {
        op->setAttr(integer.getIntegerOverflowAttrName(),
                    arith::IntegerOverflowFlagsAttr::get(&getContext(), arith::IntegerOverflowFlags::nsw));
      }
    });
  }
};

// Cuts shuffles of 64 bits in two.
struct SplitShuffles : PassWrapper<SplitShuffles, OperationPass<gpu::GPUModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitShuffles)

  StringRef getArgument() const final { return "ashlar-cuda-split-shuffles"; }

  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    populateGpuShufflePatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError("shuffles of 64 bits were not split");
      signalPassFailure();
    }
  }
};

// Lets the conversion and translation below find their patterns.
void registerExtensions(MLIRContext &context) {
  DialectRegistry registry;
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<gpu::GPUDialect, NVVM::NVVMDialect, LLVM::LLVMDialect>();
}

LogicalResult lowerToNvvm(ModuleOp kernels, unsigned indexBits) {
  PassManager passes(kernels.getContext());
  OpPassManager &gpu = passes.nest<gpu::GPUModuleOp>();
  gpu.addPass(createCanonicalizerPass());
  gpu.addPass(createCSEPass());
  gpu.addPass(createLoopInvariantCodeMotionPass());
  gpu.addPass(std::make_unique<SplitShuffles>());
  gpu.addPass(createSCFToControlFlowPass());
  gpu.addPass(std::make_unique<SetArithmeticFlags>()); // after loops became arithmetic
  ConvertGpuOpsToNVVMOpsOptions options;
  options.indexBitwidth = indexBits;
  options.useBarePtrCallConv = true;
  gpu.addPass(createConvertGpuOpsToNVVMOps(options));
  gpu.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(kernels);
}

// Translates one gpu.module. The number of threads a block is exact, so it becomes "required" instead of "at most". The data layout is
// needed here: it says how loads are aligned.
std::unique_ptr<llvm::Module> translate(gpu::GPUModuleOp kernels, llvm::LLVMContext &context) {
  kernels->setAttr(LLVM::LLVMDialect::getDataLayoutAttrName(), StringAttr::get(kernels.getContext(), deviceDataLayout()));
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>()) {
    if (Attribute threads = kernel->removeAttr(NVVM::NVVMDialect::getMaxntidAttrName())) {
      kernel->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), threads);
    }
    for (NamedAttribute attribute : llvm::to_vector(kernel->getDiscardableAttrs())) {
      if (attribute.getName().strref().starts_with("gpu.")) {
        kernel->removeAttr(attribute.getName());
      }
    }
  }
  return translateModuleToLLVMIR(kernels, context, "ashlar");
}

} // namespace

std::unique_ptr<llvm::Module> translateKernels(ModuleOp module, llvm::LLVMContext &context) {
  registerExtensions(*module.getContext());
  auto result = std::make_unique<llvm::Module>("ashlar", context);
  result->setDataLayout(deviceDataLayout());
  for (bool small : {true, false}) {
    OwningOpRef<ModuleOp> host = ModuleOp::create(module.getLoc());
    OpBuilder builder = OpBuilder::atBlockEnd(host->getBody());
    auto kernels = gpu::GPUModuleOp::create(builder, module.getLoc(), small ? "small" : "large");
    builder.setInsertionPointToStart(kernels.getBody());
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!function->hasAttr(exec::kExtentAttr) || hasSmallIndices(function) != small) {
        continue;
      }
      if (failed(checkGrid(function))) {
        return nullptr;
      }
      buildGpuFunction(builder, function);
    }
    if (kernels.getBody()->empty()) {
      continue;
    }
    if (failed(lowerToNvvm(*host, small ? 32 : 64))) {
      return nullptr;
    }
    std::unique_ptr<llvm::Module> part = translate(kernels, context);
    if (!part || llvm::Linker::linkModules(*result, std::move(part))) {
      return nullptr;
    }
  }
  return result;
}

} // namespace ashlar::cuda

// SPDX-License-Identifier: Apache-2.0
//
// scf loops -> LLVM dialect -> LLVM IR. Two things decide the speed: arithmetic for exp, log, tanh and erf instead of calls, and sums that
// may be reordered, without which they stay scalar. docs/benchmarks.md has the measurements.

#include "compiler/target/cpu/kernels.h"

#include "compiler/target/arithmetic.h"
#include "compiler/target/cpu/functions.h"
#include "compiler/target/host_code.h"
#include "dialects/exec/exec.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/IRBuilder.h"

using namespace mlir;

namespace ashlar::cpu {

namespace {

constexpr unsigned kAlignment = 64; // ASHLAR_RT_ALIGNMENT

// Replaces functions of f32 by arithmetic, conversions of bf16 by integer ops, and gives every floating-point op its fast-math flags.
struct ExpandArithmetic : PassWrapper<ExpandArithmetic, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandArithmetic)

  StringRef getArgument() const final { return "ashlar-cpu-expand-arithmetic"; }
  void getDependentDialects(DialectRegistry &registry) const final { registry.insert<vector::VectorDialect>(); }

  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    arith::populateExpandBFloat16Patterns(patterns); // by shifts: not every processor has instructions, nor the linker functions
    if (failed(expandFunctions(getOperation())) || failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError("arithmetic was not expanded");
      return signalPassFailure();
    }
    getOperation().walk([](arith::ArithFastMathInterface op) { target::setFastMathFlags(op); });
  }
};

LogicalResult lowerToLlvmDialect(ModuleOp kernels) {
  PassManager passes(kernels.getContext());
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createCSEPass());
  passes.addNestedPass<func::FuncOp>(std::make_unique<ExpandArithmetic>());
  passes.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createConvertMathToLibmPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions bare;
  bare.useBarePtrCallConv = true;
  passes.addPass(createConvertFuncToLLVMPass(bare));
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  passes.addNestedPass<LLVM::LLVMFuncOp>(createCanonicalizerPass()); // drops the sizes of buffers, which nobody reads
  return passes.run(kernels);
}

// Turns kernel(ptr a, ptr b, ..., i64 begin, i64 end) into kernel(ptr buffers, i64 begin, i64 end), which loads the pointers and inlines
// the original. The buffers of one kernel never overlap: an operand that is overwritten is passed once. `isAligned` says which are whole
// buffers; a mesh coordinate is one element inside one.
void wrapKernel(llvm::Function &body, ArrayRef<bool> isAligned) {
  llvm::LLVMContext &context = body.getContext();
  std::string name = body.getName().str();
  body.setName(name + ".body");
  body.setLinkage(llvm::GlobalValue::InternalLinkage);
  body.addFnAttr(llvm::Attribute::AlwaysInline);
  auto *pointer = llvm::PointerType::getUnqual(context);
  auto *i64 = llvm::Type::getInt64Ty(context);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, i64, i64}, /*isVarArg=*/false);
  auto *kernel = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, body.getParent());
  kernel->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", kernel));
  std::vector<llvm::Value *> arguments;
  for (unsigned i = 0; i + 2 < body.arg_size(); ++i) {
    body.addParamAttr(i, llvm::Attribute::NoAlias);
    if (isAligned[i]) {
      body.addParamAttr(i, llvm::Attribute::getWithAlignment(context, llvm::Align(kAlignment)));
    }
    arguments.push_back(builder.CreateLoad(pointer, builder.CreateConstGEP1_64(pointer, kernel->getArg(0), i)));
  }
  arguments.push_back(kernel->getArg(1));
  arguments.push_back(kernel->getArg(2));
  builder.CreateCall(&body, arguments);
  builder.CreateRetVoid();
}

// A kernel's name, and which of its arguments are whole buffers.
struct KernelArguments {
  std::string name;
  SmallVector<bool> isAligned;
};

llvm::hash_code hashBody(LLVM::LLVMFuncOp function) {
  llvm::hash_code hash = mlir::hash_value(function.getFunctionType());
  function.getBody().walk([&](Operation *op) {
    hash = llvm::hash_combine(hash, OperationEquivalence::computeHash(op, OperationEquivalence::ignoreHashValue,
                                                                      OperationEquivalence::ignoreHashValue,
                                                                      OperationEquivalence::IgnoreLocations));
  });
  return hash;
}

// Two names of one kernel, of which the second has its code.
using SharedNames = std::vector<std::pair<std::string, std::string>>;

// Drops every kernel whose code is that of an earlier one, and returns their names. Extents and the sizes of buffers are in the
// instructions and no longer in the code: so the variants of a program share what does not add up over the batch, and the updates of all
// parameters are one function.
SharedNames dropEqualCode(ModuleOp kernels, std::vector<KernelArguments> &list) {
  SharedNames shared;
  SymbolTable symbols(kernels);
  DenseMap<size_t, SmallVector<unsigned, 1>> byHash;
  std::vector<KernelArguments> kept;
  for (KernelArguments &kernel : list) {
    auto function = symbols.lookup<LLVM::LLVMFuncOp>(kernel.name);
    SmallVector<unsigned, 1> &candidates = byHash[hashBody(function)];
    auto equal = llvm::find_if(candidates, [&](unsigned i) {
      auto other = symbols.lookup<LLVM::LLVMFuncOp>(kept[i].name);
      return kept[i].isAligned == kernel.isAligned && other.getFunctionType() == function.getFunctionType() &&
             OperationEquivalence::isRegionEquivalentTo(&other.getBody(), &function.getBody(), OperationEquivalence::IgnoreLocations);
    });
    if (equal != candidates.end()) {
      shared.push_back({kernel.name, kept[*equal].name});
      symbols.erase(function);
    } else {
      candidates.push_back(kept.size());
      kept.push_back(std::move(kernel));
    }
  }
  list = std::move(kept);
  return shared;
}

} // namespace

std::unique_ptr<llvm::Module> translateKernels(ModuleOp module, llvm::LLVMContext &context) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  std::vector<KernelArguments> list;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(exec::kExtentAttr)) {
      auto copy = cast<func::FuncOp>(builder.clone(*function));
      copy->setDiscardableAttrs(ArrayRef<NamedAttribute>());
      copy.setPublic();
      SmallVector<bool> isAligned;
      for (Type argument : function.getArgumentTypes()) {
        auto memref = dyn_cast<MemRefType>(argument);
        isAligned.push_back(memref && memref.getNumElements() > 1);
      }
      list.push_back({function.getName().str(), isAligned});
    }
  }
  if (failed(lowerToLlvmDialect(*kernels))) {
    return nullptr;
  }
  SharedNames shared = dropEqualCode(*kernels, list);
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(*kernels, context, "ashlar");
  if (!translated) {
    return nullptr;
  }
  if (llvm::Error error = target::setHostTarget(*translated)) {
    module.emitError(llvm::toString(std::move(error)));
    return nullptr;
  }
  for (const KernelArguments &kernel : list) {
    wrapKernel(*translated->getFunction(kernel.name), kernel.isAligned);
  }
  for (const auto &[name, kernel] : shared) {
    llvm::GlobalAlias::create(name, translated->getFunction(kernel));
  }
  return translated;
}

} // namespace ashlar::cpu

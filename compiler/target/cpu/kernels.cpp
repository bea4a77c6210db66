// SPDX-License-Identifier: Apache-2.0
//
// scf loops -> LLVM dialect -> LLVM IR. Two things decide the speed: polynomials for exp, log, tanh and erf instead of calls, and
// fast-math flags (without NaN and infinity assumptions) on everything, without which sums stay scalar. docs/kernels.md has the
// measurements.

#include "compiler/target/cpu/kernels.h"

#include "compiler/target/host_code.h"
#include "compiler/target/rounded.h"
#include "dialects/exec/exec.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
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

// Replaces exp, log, tanh and erf of f32 by polynomials, conversions of bf16 by integer ops, and gives every floating-point op its
// fast-math flags.
struct ApproximateMath : PassWrapper<ApproximateMath, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ApproximateMath)

  StringRef getArgument() const final { return "ashlar-cpu-approximate-math"; }
  void getDependentDialects(DialectRegistry &registry) const final { registry.insert<vector::VectorDialect>(); }

  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(
        patterns, [](StringRef name) { return name == "math.exp" || name == "math.tanh" || name == "math.erf" || name == "math.log"; });
    arith::populateExpandBFloat16Patterns(patterns); // by shifts: not every processor has instructions, nor the linker functions
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError("math approximation did not converge");
      return signalPassFailure();
    }
    using Flags = arith::FastMathFlags;
    getOperation().walk([&](arith::ArithFastMathInterface op) {
      if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
        return; // there and back would be contracted to nothing, but it is how a result is rounded to f16
      }
      arith::FastMathFlagsAttr own = op.getFastMathFlagsAttr();
      Flags flags = Flags::contract | Flags::nsz | Flags::arcp | Flags::afn | (own ? own.getValue() : Flags::none);
      if (target::isRounded(op)) {
        flags = flags & ~(Flags::contract | Flags::arcp | Flags::reassoc);
      }
      op->setAttr(op.getFastMathAttrName(), arith::FastMathFlagsAttr::get(&getContext(), flags));
    });
  }
};

LogicalResult lowerToLlvmDialect(ModuleOp kernels) {
  PassManager passes(kernels.getContext());
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createCSEPass());
  passes.addNestedPass<func::FuncOp>(std::make_unique<ApproximateMath>());
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

} // namespace

std::unique_ptr<llvm::Module> translateKernels(ModuleOp module, llvm::LLVMContext &context) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  std::vector<std::pair<std::string, SmallVector<bool>>> kernelArguments;
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
      kernelArguments.push_back({function.getName().str(), isAligned});
    }
  }
  if (failed(lowerToLlvmDialect(*kernels))) {
    return nullptr;
  }
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
  for (const auto &[name, isAligned] : kernelArguments) {
    wrapKernel(*translated->getFunction(name), isAligned);
  }
  return translated;
}

} // namespace ashlar::cpu

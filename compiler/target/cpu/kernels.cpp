// SPDX-License-Identifier: Apache-2.0
//
// scf loops -> LLVM dialect -> LLVM IR -> object. Two things decide the speed: polynomials for exp, log, tanh and erf instead of calls, and
// fast-math flags (without NaN and infinity assumptions) on everything, without which sums stay scalar. docs/kernels.md has the
// measurements.

#include "compiler/target/cpu/kernels.h"

#include "dialects/exec/exec.h"
#include "runtime/abi/cpu_features.h"

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
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

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

struct HostTarget {
  std::unique_ptr<llvm::TargetMachine> machine;
  std::string features;
  bool hasAvx512 = false;
};

llvm::Expected<HostTarget> getHostTarget() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::InitializeNativeTargetAsmParser();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    return llvm::createStringError("no code generator for " + triple.str() + ": " + error);
  }
  HostTarget host;
  std::vector<std::string> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures()) {
    features.push_back((feature.second ? "+" : "-") + feature.first().str());
    host.hasAvx512 |= feature.second && feature.first() == "avx512f";
  }
  std::sort(features.begin(), features.end());
  host.features = llvm::join(features, ",");
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  host.machine.reset(target->createTargetMachine(triple, llvm::sys::getHostCPUName(), host.features, options, llvm::Reloc::PIC_,
                                                 std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  return host;
}

void optimise(llvm::Module &module, HostTarget &host) {
  for (llvm::Function &function : module) {
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", host.machine->getTargetCPU());
      function.addFnAttr("target-features", host.features);
      function.addFnAttr("no-trapping-math", "true");
      if (host.hasAvx512) {
        function.addFnAttr("prefer-vector-width", "512");
      }
    }
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopInterleaving = tuning.LoopUnrolling = true;
  llvm::PassBuilder builder(host.machine.get(), tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
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
  llvm::Expected<HostTarget> host = getHostTarget();
  if (!host) {
    module.emitError(llvm::toString(host.takeError()));
    return nullptr;
  }
  translated->setDataLayout(host->machine->createDataLayout()); // before tables are added: the layout hands out sizes
  translated->setTargetTriple(host->machine->getTargetTriple());
  for (const auto &[name, isAligned] : kernelArguments) {
    wrapKernel(*translated->getFunction(name), isAligned);
  }
  return translated;
}

llvm::Error emitObject(llvm::Module &module, llvm::StringRef path) {
  llvm::Expected<HostTarget> host = getHostTarget();
  if (!host) {
    return host.takeError();
  }
  optimise(module, *host);
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (error) {
    return llvm::createStringError(error, "cannot write " + path + ": " + error.message());
  }
  llvm::legacy::PassManager codegen;
  if (host->machine->addPassesToEmitFile(codegen, out, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    return llvm::createStringError("the code generator cannot write object files");
  }
  codegen.run(module);
  out.close();
  if (out.has_error()) {
    std::error_code code = out.error();
    out.clear_error();
    return llvm::createStringError(code, "cannot write " + path + ": " + code.message());
  }
  return llvm::Error::success();
}

std::string hostCpuFeatures() {
  std::string list;
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  auto add = [&](llvm::StringRef name) {
    if (host.lookup(name)) {
      list += (list.empty() ? "" : ",") + name.str();
    }
  };
#define ASHLAR_ADD_FEATURE(name) add(name);
  ASHLAR_CPU_FEATURES(ASHLAR_ADD_FEATURE)
#undef ASHLAR_ADD_FEATURE
  return list;
}

} // namespace ashlar::cpu

// SPDX-License-Identifier: Apache-2.0
//
// scf loops -> LLVM dialect -> LLVM IR. Two things decide the speed: arithmetic for exp, log, tanh and erf instead of calls, and sums that
// may be reordered, without which they stay scalar. docs/benchmarks.md has the measurements.

#include "compiler/target/cpu/kernels.h"

#include "compiler/target/arithmetic.h"
#include "compiler/target/cpu/functions.h"
#include "compiler/target/cpu/shared_kernels.h"
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
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"

using namespace mlir;

namespace ashlar::cpu {

namespace {

// Makes bf16 of integers by way of f32. As one op it becomes a call of __truncsfbf2 on processors without bf16.
template <typename Op> struct ConvertByF32 : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const final {
    if (!getElementTypeOrSelf(op.getType()).isBF16()) {
      return failure();
    }
    Type type = op.getType(), wide = rewriter.getF32Type();
    auto shaped = dyn_cast<ShapedType>(type);
    Value number = Op::create(rewriter, op.getLoc(), shaped ? Type(shaped.clone(wide)) : wide, op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, type, number);
    return success();
  }
};

// Replaces functions of f32 by arithmetic, conversions of bf16 by integer ops, and gives every floating-point op its fast-math flags.
struct ExpandArithmetic : PassWrapper<ExpandArithmetic, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandArithmetic)

  StringRef getArgument() const final { return "ashlar-cpu-expand-arithmetic"; }
  void getDependentDialects(DialectRegistry &registry) const final { registry.insert<LLVM::LLVMDialect, vector::VectorDialect>(); }

  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    patterns.add<ConvertByF32<arith::SIToFPOp>, ConvertByF32<arith::UIToFPOp>>(&getContext());
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
  passes.enableVerifier(false); // all but one are passes of MLIR, over all loops of a program
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

// Turns kernel(ptr a, ptr b, ..., i64 begin, i64 end, numbers ...) into kernel(ptr buffers, i64 begin, i64 end), or with numbers into
// kernel(ptr buffers, i64 begin, i64 end, ptr numbers), 8 bytes each, which loads pointers and numbers and inlines the original. The
// buffers of one kernel never overlap: an operand that is overwritten is passed once. A buffer begins at any element, as a row that moves
// in a repeat does (TargetTraits::rowAlignment): loads and stores have the alignment of elements.
void wrapKernel(llvm::Function &body, unsigned buffers) {
  llvm::LLVMContext &context = body.getContext();
  std::string name = body.getName().str();
  body.setName(name + ".body");
  body.setLinkage(llvm::GlobalValue::InternalLinkage);
  body.addFnAttr(llvm::Attribute::AlwaysInline);
  auto *pointer = llvm::PointerType::getUnqual(context);
  auto *i64 = llvm::Type::getInt64Ty(context);
  const unsigned numbers = body.arg_size() - buffers - 2;
  SmallVector<llvm::Type *> parameters{pointer, i64, i64};
  if (numbers > 0) {
    parameters.push_back(pointer);
  }
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), parameters, /*isVarArg=*/false);
  auto *kernel = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, body.getParent());
  kernel->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", kernel));
  std::vector<llvm::Value *> arguments;
  for (unsigned i = 0; i < buffers; ++i) {
    body.addParamAttr(i, llvm::Attribute::NoAlias);
    arguments.push_back(builder.CreateLoad(pointer, builder.CreateConstGEP1_64(pointer, kernel->getArg(0), i)));
  }
  arguments.push_back(kernel->getArg(1));
  arguments.push_back(kernel->getArg(2));
  for (unsigned i = 0; i < numbers; ++i) {
    arguments.push_back(builder.CreateLoad(body.getArg(buffers + 2 + i)->getType(), builder.CreateConstGEP1_64(i64, kernel->getArg(3), i)));
  }
  if (numbers > 0) { // shared: LLVM is not to make a copy for each of the callers again
    kernel->addFnAttr(llvm::Attribute::NoInline);
    kernel->setVisibility(llvm::GlobalValue::HiddenVisibility);
  }
  builder.CreateCall(&body, arguments);
  builder.CreateRetVoid();
}

// Adds a kernel that calls the code it shares with its numbers.
void callShared(llvm::Module &module, const SharingKernel &sharing, llvm::GlobalValue &code) {
  llvm::LLVMContext &context = module.getContext();
  auto *pointer = llvm::PointerType::getUnqual(context);
  auto *i64 = llvm::Type::getInt64Ty(context);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, i64, i64}, /*isVarArg=*/false);
  auto *kernel = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, sharing.name, module);
  kernel->addFnAttr(llvm::Attribute::NoUnwind);
  const std::vector<uint64_t> words(sharing.numbers.begin(), sharing.numbers.end());
  llvm::Constant *numbers = llvm::ConstantDataArray::get(context, ArrayRef<uint64_t>(words));
  auto *table = new llvm::GlobalVariable(module, numbers->getType(), /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage, numbers,
                                         sharing.name + ".numbers");
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", kernel));
  llvm::Value *arguments[] = {kernel->getArg(0), kernel->getArg(1), kernel->getArg(2), table};
  auto *codeType = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, i64, i64, pointer}, /*isVarArg=*/false);
  builder.CreateCall(codeType, &code, arguments)->setTailCall();
  builder.CreateRetVoid();
}

// Whether a loop has so many trips that its vectors fill a loop themselves, or may have.
bool isLong(const llvm::Loop *loop) {
  constexpr int64_t kShort = 32;
  auto *branch = llvm::dyn_cast<llvm::BranchInst>(loop->getHeader()->getTerminator());
  auto *compare = branch && branch->isConditional() ? llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition()) : nullptr;
  auto *trips = compare ? llvm::dyn_cast<llvm::ConstantInt>(compare->getOperand(1)) : nullptr;
  return !trips || trips->getSExtValue() >= kShort;
}

// Keeps LLVM from unrolling loops around long ones. It unrolls a loop over 768 elements as a whole, and then the two loops of 7 trips
// around it: blocks of 3000 instructions, no faster, on which the scheduler takes seconds. Loops around short ones are unrolled, so that
// windows of 3 x 3 are straight-line code, and so are those of sums, whose order unrolling decides.
void keepOuterLoops(llvm::Function &body) {
  if (llvm::any_of(llvm::instructions(body),
                   [](const llvm::Instruction &op) { return llvm::isa<llvm::FPMathOperator>(op) && op.hasAllowReassoc(); })) {
    return;
  }
  llvm::DominatorTree tree(body);
  llvm::LoopInfo loops(tree);
  for (llvm::Loop *loop : loops.getLoopsInPreorder()) {
    if (!loop->isInnermost() &&
        llvm::all_of(loop->getLoopsInPreorder(), [](const llvm::Loop *inner) { return !inner->isInnermost() || isLong(inner); })) {
      loop->setLoopAlreadyUnrolled();
    }
  }
}

// A kernel's name, and how many of its arguments are buffers.
struct KernelArguments {
  std::string name;
  unsigned buffers;
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
      return kept[i].buffers == kernel.buffers && other.getFunctionType() == function.getFunctionType() &&
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
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(exec::kExtentAttr)) {
      builder.clone(*function);
    }
  }
  std::vector<SharingKernel> sharing = shareCode(*kernels);
  std::vector<KernelArguments> list;
  for (auto function : kernels->getOps<func::FuncOp>()) {
    function->setDiscardableAttrs(ArrayRef<NamedAttribute>());
    function.setPublic();
    list.push_back(
        {function.getName().str(), static_cast<unsigned>(llvm::count_if(function.getArgumentTypes(), llvm::IsaPred<MemRefType>))});
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
    llvm::Function &body = *translated->getFunction(kernel.name);
    keepOuterLoops(body);
    wrapKernel(body, kernel.buffers);
  }
  for (const auto &[name, kernel] : shared) {
    llvm::GlobalAlias::create(name, translated->getFunction(kernel));
  }
  for (const SharingKernel &kernel : sharing) {
    llvm::GlobalValue *code = translated->getNamedValue(kernel.code);
    if (auto *alias = llvm::dyn_cast<llvm::GlobalAlias>(code)) { // that was equal to another in the end
      code = llvm::cast<llvm::Function>(alias->getAliasee());
    }
    if (kernel.numbers.empty()) {
      llvm::GlobalAlias::create(kernel.name, code);
    } else {
      callShared(*translated, kernel, *code);
    }
  }
  return translated;
}

} // namespace ashlar::cpu

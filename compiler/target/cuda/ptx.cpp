// SPDX-License-Identifier: Apache-2.0
//
// Contraction follows the flags of each instruction: a global "fast" would also reach into libdevice, whose error terms rely on it not to.

#include "compiler/target/cuda/ptx.h"

#include "compiler/target/code_generator.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Transforms/IPO/Internalize.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace ashlar::cuda {
namespace {

// PTX of CUDA 13.0, the oldest driver that the runtime takes.
constexpr char kPtxFeature[] = "+ptx90";

constexpr char kTriple[] = "nvptx64-nvidia-cuda";

std::unique_ptr<llvm::TargetMachine> makeMachine(const Chip &chip) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple(kTriple);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    return nullptr; // LLVM was built without it
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.MCOptions.AsmVerbose = false;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, chip.name(), kPtxFeature, options, std::nullopt,
                                                                          std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

bool callsLibdevice(const llvm::Module &module) {
  return llvm::any_of(module,
                      [](const llvm::Function &function) { return function.isDeclaration() && function.getName().starts_with("__nv_"); });
}

// Answers libdevice's questions about precision: quotients and roots are rounded correctly. LLVM answers the others, and these with "no".
void choosePrecision(llvm::Module &module) {
  llvm::Function *reflect = module.getFunction("__nvvm_reflect");
  if (!reflect) {
    return;
  }
  for (llvm::User *user : llvm::make_early_inc_range(reflect->users())) {
    auto *call = llvm::cast<llvm::CallInst>(user);
    auto *question = llvm::dyn_cast<llvm::GlobalVariable>(call->getArgOperand(0)->stripPointerCasts());
    auto *text = question ? llvm::dyn_cast<llvm::ConstantDataSequential>(question->getInitializer()) : nullptr;
    if (text && text->isCString() && text->getAsCString().starts_with("__CUDA_PREC_")) {
      call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), 1));
      call->eraseFromParent();
    }
  }
}

} // namespace

bool isKnownToLlvm(const Chip &chip) {
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(chip);
  return machine && machine->getMCSubtargetInfo()->isCPUStringValid(chip.name());
}

std::string deviceDataLayout() {
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(Chip{90}); // it is that of all chips
  return machine ? machine->createDataLayout().getStringRepresentation() : "";
}

llvm::Error linkLibdevice(llvm::Module &module, llvm::StringRef libdevice) {
  module.setTargetTriple(llvm::Triple(kTriple));
  if (!callsLibdevice(module)) {
    return llvm::Error::success();
  }
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> library = llvm::getLazyIRFileModule(libdevice, diagnostic, module.getContext());
  if (!library) {
    return llvm::createStringError("cannot read " + libdevice + ": " + diagnostic.getMessage());
  }
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  auto internalise = [](llvm::Module &merged, const llvm::StringSet<> &taken) {
    llvm::internalizeModule(merged, [&](const llvm::GlobalValue &value) { return !taken.contains(value.getName()); });
  };
  if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded, internalise)) {
    return llvm::createStringError("cannot link " + libdevice + " to the kernels");
  }
  choosePrecision(module);
  return llvm::Error::success();
}

llvm::Expected<std::string> generatePtx(const llvm::Module &module, const Chip &chip) {
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(chip);
  std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
  for (llvm::Function &function : *copy) {
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", machine->getTargetCPU());
      function.addFnAttr("target-features", kPtxFeature);
    }
  }
  target::optimise(*copy, *machine, /*fetchesRows=*/false);
  llvm::SmallVector<char> text;
  llvm::raw_svector_ostream out(text);
  if (llvm::Error error = target::generateCode(*copy, *machine, llvm::CodeGenFileType::AssemblyFile, out)) {
    return std::move(error);
  }
  return std::string(text.data(), text.size());
}

} // namespace ashlar::cuda

// SPDX-License-Identifier: Apache-2.0
//
// The target machine of this host, and objects for it.

#include "compiler/target/host_code.h"

#include "compiler/file/output_file.h"
#include "compiler/target/code_generator.h"
#include "runtime/abi/cpu_features.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>

namespace ashlar::target {
namespace {

struct HostTarget {
  std::unique_ptr<llvm::TargetMachine> machine;
  std::string features;
  bool hasAvx512 = false;
};

llvm::Expected<HostTarget> getHostTarget(HostCpu cpu) {
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
  if (cpu == HostCpu::This) {
    for (const auto &feature : llvm::sys::getHostCPUFeatures()) {
      features.push_back((feature.second ? "+" : "-") + feature.first().str());
      host.hasAvx512 |= feature.second && feature.first() == "avx512f";
    }
  }
  std::sort(features.begin(), features.end());
  host.features = llvm::join(features, ",");
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard; // where the flags of the instructions allow it
  host.machine.reset(target->createTargetMachine(triple, cpu == HostCpu::This ? llvm::sys::getHostCPUName() : "", host.features, options,
                                                 llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  return host;
}

void setFunctionAttributes(llvm::Module &module, const HostTarget &host) {
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
}

// Writes 2^k x out where the processor has no instruction for it (AVX-512 has): as two products, since for k = 128 the power is too large
// for an f32, and from -127 down subnormal; only the last product rounds. Holds for k from -150 to 129.
void expandPowers(llvm::Module &module) {
  constexpr unsigned kMantissaBits = 23, kExponentBias = 127;
  llvm::SmallVector<llvm::IntrinsicInst *> calls;
  for (llvm::Function &function : module) {
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction); call && call->getIntrinsicID() == llvm::Intrinsic::ldexp) {
        calls.push_back(call);
      }
    }
  }
  for (llvm::IntrinsicInst *call : calls) {
    llvm::IRBuilder<> b(call);
    auto powerOfTwo = [&](llvm::Value *k) {
      return b.CreateBitCast(b.CreateShl(b.CreateAdd(k, b.getInt32(kExponentBias)), kMantissaBits), call->getType());
    };
    llvm::Value *k = call->getArgOperand(1), *half = b.CreateAShr(k, 1);
    llvm::Value *once = b.CreateFMul(call->getArgOperand(0), powerOfTwo(half));
    call->replaceAllUsesWith(b.CreateFMul(once, powerOfTwo(b.CreateSub(k, half))));
    call->eraseFromParent();
  }
}

} // namespace

llvm::Error setHostTarget(llvm::Module &module) {
  llvm::Expected<HostTarget> host = getHostTarget(HostCpu::Any);
  if (!host) {
    return host.takeError();
  }
  module.setDataLayout(host->machine->createDataLayout());
  module.setTargetTriple(host->machine->getTargetTriple());
  return llvm::Error::success();
}

llvm::Error emitObject(llvm::Module &module, llvm::StringRef path, HostCpu cpu) {
  llvm::Expected<HostTarget> host = getHostTarget(cpu);
  if (!host) {
    return host.takeError();
  }
  setFunctionAttributes(module, *host);
  if (!host->hasAvx512) {
    expandPowers(module);
  }
  optimise(module, *host->machine, /*fetchesRows=*/true);
  return file::tryWriteOutput(
      path, [&](llvm::raw_pwrite_stream &out) { return generateCode(module, *host->machine, llvm::CodeGenFileType::ObjectFile, out); });
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

} // namespace ashlar::target

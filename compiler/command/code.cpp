// SPDX-License-Identifier: Apache-2.0
//
// The cpu target's kernels are functions of the host's module; those of the cuda target are files that it takes in.

#include "compiler/command/code.h"

#include "compiler/command/diagnostics.h"
#include "compiler/file/output_file.h"
#include "compiler/file/temporary_folder.h"
#include "compiler/target/constants.h"
#include "compiler/target/cpu/kernels.h"
#include "compiler/target/cuda/kernels.h"
#include "compiler/target/cuda/toolkit.h"
#include "compiler/target/host_code.h"
#include "compiler/target/image_emitter.h"
#include "compiler/target/link.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using ashlar::file::TemporaryFolder;
using ashlar::file::writeOutput;

namespace ashlar::command {
namespace {

class CpuTarget final : public CodeTarget {
public:
  exec::Target kind() const override { return exec::Target::Cpu; }
  std::string text() const override { return "cpu"; }
  target::HostCpu hostCpu() const override { return target::HostCpu::This; }

  FailureOr<Code> compileKernels(ModuleOp module, llvm::LLVMContext &context, StringRef) const override {
    Code code{cpu::translateKernels(module, context), {}};
    if (!code.host) {
      return failure();
    }
    return std::move(code);
  }
};

class CudaTarget final : public CodeTarget {
public:
  CudaTarget(cuda::Toolkit toolkit, std::vector<cuda::Chip> chips) : toolkit(std::move(toolkit)), chips(std::move(chips)) {}

  exec::Target kind() const override { return exec::Target::Cuda; }
  target::HostCpu hostCpu() const override { return target::HostCpu::Any; }

  std::string text() const override {
    auto names = llvm::map_to_vector(chips, [](const cuda::Chip &chip) { return chip.name(); });
    return "cuda (" + llvm::join(names, ", ") + ", later chips by PTX of " + chips.back().virtualName() + ")";
  }

  FailureOr<Code> compileKernels(ModuleOp module, llvm::LLVMContext &context, StringRef scratch) const override {
    FailureOr<std::vector<target::DeviceCode>> devices = cuda::compileKernels(module, toolkit, chips, scratch);
    if (failed(devices)) {
      return failure();
    }
    Code code{std::make_unique<llvm::Module>("ashlar", context), std::move(*devices)};
    if (failed(report(target::setHostTarget(*code.host)))) {
      return failure();
    }
    return std::move(code);
  }

  FailureOr<std::string> emitPtx(ModuleOp module) const override { return cuda::kernelsToPtx(module, toolkit, chips.back()); }

private:
  cuda::Toolkit toolkit;
  std::vector<cuda::Chip> chips; // at least one, the oldest first
};

llvm::Expected<std::unique_ptr<CodeTarget>> makeCudaTarget(const Options &options) {
  llvm::Expected<cuda::Toolkit> toolkit = cuda::findToolkit();
  if (!toolkit) {
    return toolkit.takeError();
  }
  llvm::StringRef names = options.gpuArch.empty() ? llvm::StringRef(cuda::kDefaultChips) : llvm::StringRef(options.gpuArch);
  llvm::Expected<std::vector<cuda::Chip>> chips = cuda::parseChips(names);
  if (!chips) {
    return chips.takeError();
  }
  if (llvm::Error error = cuda::checkChips(*toolkit, *chips)) {
    return std::move(error);
  }
  return std::make_unique<CudaTarget>(std::move(*toolkit), std::move(*chips));
}

} // namespace

llvm::Expected<std::unique_ptr<CodeTarget>> chooseTarget(const Options &options) {
  std::optional<exec::Target> target = exec::symbolizeTarget(options.target);
  if (!target) {
    return llvm::createStringError("--target " + options.target + " is not a target; the targets are cpu and cuda");
  }
  switch (*target) {
  case exec::Target::Cpu:
    if (!options.gpuArch.empty() || options.emit == Emit::Ptx) {
      return llvm::createStringError(std::string(options.gpuArch.empty() ? "--emit ptx" : "--gpu-arch") +
                                     " is for --target cuda; the target is cpu");
    }
    return std::make_unique<CpuTarget>();
  case exec::Target::Cuda:
    return makeCudaTarget(options);
  }
  llvm_unreachable("unknown target");
}

LogicalResult generateCode(ModuleOp module, target::ImageInfo info, const CodeTarget &target, const Options &options) {
  if (options.emit == Emit::Ptx) {
    FailureOr<std::string> ptx = target.emitPtx(module);
    return failed(ptx) ? failure() : report(writeOutput(options.output, [&](llvm::raw_ostream &out) { out << *ptx; }));
  }
  TemporaryFolder scratch;
  if (failed(report(scratch.create()))) {
    return failure();
  }
  llvm::Expected<target::IncludedFile> constants = target::writeConstants(module, scratch.file("constants.bin"));
  if (!constants) {
    return report(constants.takeError());
  }
  llvm::Expected<target::IncludedFile> exported = target::writeBytes(info.exported.text, scratch.file("export.bin"));
  if (!exported) {
    return report(exported.takeError());
  }
  info.exported.file = *exported;
  llvm::LLVMContext context;
  FailureOr<CodeTarget::Code> code = target.compileKernels(module, context, scratch.path());
  if (failed(code) || failed(report(target::emitImage(module, info, *constants, *code->host, code->devices)))) {
    return failure();
  }
  if (options.emit == Emit::Llvm) {
    return report(writeOutput(options.output, [&](llvm::raw_ostream &out) { code->host->print(out, nullptr); }));
  }
  if (options.emit == Emit::Obj) {
    return report(target::emitObject(*code->host, options.output, target.hostCpu()));
  }
  std::string object = scratch.file("program.o");
  if (failed(report(target::emitObject(*code->host, object, target.hostCpu())))) {
    return failure();
  }
  llvm::Expected<target::LinkFiles> files = target::findLinkFiles();
  const auto debugInfo = options.debugInfo ? target::DebugInfo::Keep : target::DebugInfo::Drop;
  return files ? report(target::linkExecutable(*files, object, options.output, debugInfo)) : report(files.takeError());
}

} // namespace ashlar::command

// SPDX-License-Identifier: Apache-2.0
//
// The cpu target's kernels are functions of the host's module; those of the cuda target are files that it takes in.

#include "compiler/driver/code.h"

#include "compiler/driver/diagnostics.h"
#include "compiler/file/output_file.h"
#include "compiler/file/temporary_folder.h"
#include "compiler/target/constants.h"
#include "compiler/target/cpu/kernels.h"
#include "compiler/target/cuda/kernels.h"
#include "compiler/target/host_code.h"
#include "compiler/target/image_emitter.h"
#include "compiler/target/link.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using ashlar::file::TemporaryFolder;
using ashlar::file::writeOutput;

namespace ashlar::driver {
namespace {

// A program as LLVM IR for the host, and the files that its object takes in.
class HostProgram {
public:
  HostProgram(const CodeTarget &target, const TemporaryFolder &scratch) : target(target), scratch(scratch) {}

  LogicalResult make(ModuleOp module, const target::ImageInfo &info) {
    llvm::Expected<target::IncludedFile> constants = target::writeConstants(module, scratch.file("constants.bin"));
    if (!constants) {
      return report(constants.takeError());
    }
    std::vector<target::DeviceCode> deviceCodes;
    if (target.target == exec::Target::Cuda) {
      FailureOr<std::vector<target::DeviceCode>> made = cuda::compileKernels(module, target.toolkit, target.chips, scratch.path());
      if (failed(made)) {
        return failure();
      }
      deviceCodes = std::move(*made);
      code = std::make_unique<llvm::Module>("ashlar", context);
      if (failed(report(target::setHostTarget(*code)))) {
        return failure();
      }
    } else {
      code = cpu::translateKernels(module, context);
    }
    return code ? report(target::emitImage(module, info, *constants, *code, deviceCodes)) : failure();
  }

  void print(llvm::raw_ostream &out) const { code->print(out, nullptr); }

  // Writes the object; afterwards the IR is no longer what was made.
  llvm::Error emitObject(StringRef path) {
    return target::emitObject(*code, path, target.target == exec::Target::Cuda ? target::HostCpu::Any : target::HostCpu::This);
  }

private:
  const CodeTarget &target;
  const TemporaryFolder &scratch;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code;
};

LogicalResult writePtx(ModuleOp module, const CodeTarget &target, const Options &options) {
  FailureOr<std::string> ptx = cuda::kernelsToPtx(module, target.toolkit, target.chips.back());
  return failed(ptx) ? failure() : report(writeOutput(options.output, [&](llvm::raw_ostream &out) { out << *ptx; }));
}

} // namespace

std::string CodeTarget::text() const {
  if (target == exec::Target::Cpu) {
    return "cpu";
  }
  auto names = llvm::map_to_vector(chips, [](const cuda::Chip &chip) { return chip.name(); });
  return "cuda (" + llvm::join(names, ", ") + ", later chips by PTX of " + chips.back().virtualName() + ")";
}

llvm::Expected<CodeTarget> chooseTarget(const Options &options) {
  CodeTarget result;
  std::optional<exec::Target> target = exec::symbolizeTarget(options.target);
  if (!target) {
    return llvm::createStringError("--target " + options.target + " is not a target; the targets are cpu and cuda");
  }
  result.target = *target;
  if (*target == exec::Target::Cpu) {
    const char *option = !options.gpuArch.empty() ? "--gpu-arch" : options.emit == Emit::Ptx ? "--emit ptx" : nullptr;
    return option ? llvm::createStringError(std::string(option) + " is for --target cuda; the target is cpu")
                  : llvm::Expected<CodeTarget>(std::move(result));
  }
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
  result.toolkit = std::move(*toolkit);
  result.chips = std::move(*chips);
  return result;
}

LogicalResult generateCode(ModuleOp module, const target::ImageInfo &info, const CodeTarget &target, const Options &options) {
  if (options.emit == Emit::Ptx) {
    return writePtx(module, target, options);
  }
  TemporaryFolder scratch;
  if (failed(report(scratch.create()))) {
    return failure();
  }
  HostProgram program(target, scratch);
  if (failed(program.make(module, info))) {
    return failure();
  }
  if (options.emit == Emit::Llvm) {
    return report(writeOutput(options.output, [&](llvm::raw_ostream &out) { program.print(out); }));
  }
  if (options.emit == Emit::Obj) {
    return report(program.emitObject(options.output));
  }
  std::string object = scratch.file("program.o");
  if (failed(report(program.emitObject(object)))) {
    return failure();
  }
  llvm::Expected<std::string> runtime = target::findRuntimeArchive(options.programPath);
  return runtime ? report(target::linkExecutable(object, *runtime, options.output)) : report(runtime.takeError());
}

} // namespace ashlar::driver

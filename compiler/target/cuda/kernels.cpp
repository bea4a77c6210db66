// SPDX-License-Identifier: Apache-2.0
//
// One module of all kernels, made once; for each chip an optimised copy, its PTX, and one run of ptxas, which goes on while the PTX of the
// next chip is made.

#include "compiler/target/cuda/kernels.h"

#include "compiler/file/output_file.h"
#include "compiler/target/cuda/ptx.h"
#include "compiler/target/cuda/translate_kernels.h"

#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace ashlar::cuda {
namespace {

// The kernels as LLVM IR that calls nothing outside.
class Kernels {
public:
  LogicalResult translate(ModuleOp module, const Toolkit &toolkit) {
    code = translateKernels(module, context);
    if (!code) {
      return failure();
    }
    llvm::Error error = linkLibdevice(*code, toolkit.libdevice);
    return error ? module.emitError(llvm::toString(std::move(error))) : success();
  }

  llvm::Expected<std::string> ptx(const Chip &chip) const {
    if (chip.capability < kTensorCoreChip && usesTensorCores()) {
      return llvm::createStringError("attention multiplies matrices of 16 bits by instructions of compute capability " +
                                     llvm::Twine(kTensorCoreChip / 10) + "." + llvm::Twine(kTensorCoreChip % 10) + " and later, not of " +
                                     chip.name() + "; leave it out of --gpu-arch, or compile with --no-attention");
    }
    return generatePtx(*code, chip);
  }

private:
  static constexpr unsigned kTensorCoreChip = 80; // has mma.m16n8k16

  bool usesTensorCores() const {
    return llvm::any_of(*code, [](const llvm::Function &function) {
      const llvm::Intrinsic::ID id = function.getIntrinsicID();
      return id == llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16 || id == llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;
    });
  }

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code;
};

// Makes the files of a compilation and remembers what they are.
class Assembly {
public:
  Assembly(const Toolkit &toolkit, StringRef folder) : toolkit(toolkit), folder(folder) {}

  // Starts to make machine code.
  llvm::Error start(const Chip &chip, llvm::StringRef ptx) {
    std::string input = pathOf(chip.name() + ".ptx");
    if (llvm::Error error = file::writeOutput(input, [&](llvm::raw_ostream &out) { out << ptx; })) {
      return error;
    }
    llvm::Expected<target::ToolRun> run = startAssembler(toolkit, chip, input, pathOf(chip.name() + ".cubin"));
    if (!run) {
      return run.takeError();
    }
    runs.push_back({chip, std::move(*run)});
    return llvm::Error::success();
  }

  // Waits for the machine code of all chips.
  llvm::Error finish() {
    for (auto &[chip, run] : runs) {
      if (llvm::Error error = run.wait()) {
        return llvm::createStringError("ptxas refused the kernels for " + chip.name() + ": " + llvm::toString(std::move(error)));
      }
      if (llvm::Error error = add(chip.name(), pathOf(chip.name() + ".cubin"))) {
        return error;
      }
    }
    return llvm::Error::success();
  }

  // Adds PTX for a chip and its successors, ending in a zero byte.
  llvm::Error addPtx(const Chip &chip, std::string ptx) {
    ptx.push_back('\0');
    std::string path = pathOf(chip.virtualName() + ".ptx");
    llvm::Error error = file::writeOutput(path, [&](llvm::raw_ostream &out) { out << ptx; });
    return error ? std::move(error) : add(chip.virtualName(), path);
  }

  std::vector<target::DeviceCode> codes;

private:
  std::string pathOf(const std::string &name) const { return (folder + "/" + name).str(); }

  llvm::Error add(llvm::StringRef arch, llvm::StringRef path) {
    auto bytes = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!bytes) {
      return llvm::createStringError(bytes.getError(), "cannot read " + path + ": " + bytes.getError().message());
    }
    uint64_t hash = llvm::xxh3_64bits((*bytes)->getBuffer());
    codes.push_back({arch.str(), {path.str(), (*bytes)->getBufferSize(), hash}});
    return llvm::Error::success();
  }

  const Toolkit &toolkit;
  StringRef folder;
  std::vector<std::pair<Chip, target::ToolRun>> runs;
};

llvm::Error assemble(const Kernels &kernels, ArrayRef<Chip> chips, Assembly &assembly) {
  std::string newest;
  for (const Chip &chip : chips) {
    llvm::Expected<std::string> ptx = kernels.ptx(chip);
    if (!ptx) {
      return ptx.takeError();
    }
    newest = std::move(*ptx);
    if (llvm::Error error = assembly.start(chip, newest)) {
      return error;
    }
  }
  llvm::Error error = assembly.finish();
  return error ? std::move(error) : assembly.addPtx(chips.back(), std::move(newest));
}

} // namespace

FailureOr<std::string> kernelsToPtx(ModuleOp module, const Toolkit &toolkit, const Chip &chip) {
  Kernels kernels;
  if (failed(kernels.translate(module, toolkit))) {
    return failure();
  }
  llvm::Expected<std::string> ptx = kernels.ptx(chip);
  return ptx ? FailureOr<std::string>(std::move(*ptx)) : module.emitError(llvm::toString(ptx.takeError()));
}

FailureOr<std::vector<target::DeviceCode>> compileKernels(ModuleOp module, const Toolkit &toolkit, ArrayRef<Chip> chips, StringRef folder) {
  Kernels kernels;
  if (failed(kernels.translate(module, toolkit))) {
    return failure();
  }
  Assembly assembly(toolkit, folder);
  if (llvm::Error error = assemble(kernels, chips, assembly)) {
    return module.emitError(llvm::toString(std::move(error)));
  }
  return std::move(assembly.codes);
}

} // namespace ashlar::cuda

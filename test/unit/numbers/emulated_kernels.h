// SPDX-License-Identifier: Apache-2.0
//
// Runs the functions of a fused module with the kernels of the cuda target as they are shipped: through libdevice, the optimiser and PTX,
// on the machine of the emulator.

#ifndef ASHLAR_TEST_UNIT_NUMBERS_EMULATED_KERNELS_H
#define ASHLAR_TEST_UNIT_NUMBERS_EMULATED_KERNELS_H

#include "test/unit/emulator/ptx_run.h"
#include "test/unit/lower/compiled_kernels.h"

#include <map>

namespace ashlar::test {

class EmulatedKernels : public CompiledKernels {
public:
  // Throws std::runtime_error when the kernels cannot be compiled. `fused` must outlive this.
  EmulatedKernels(mlir::ModuleOp fused, std::mt19937_64 &random);

protected:
  void launch(const Kernel &kernel, llvm::ArrayRef<char *> buffers) override;

private:
  std::unique_ptr<emulator::PtxRun> device;
  std::map<std::string, std::vector<uint64_t>> addresses; // of the buffers of each kernel
};

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_NUMBERS_EMULATED_KERNELS_H

// SPDX-License-Identifier: Apache-2.0
//
// A kernel's buffers lie on the device where they were at its first launch.

#include "test/unit/numbers/emulated_kernels.h"

#include "compiler/target/cuda/kernels.h"
#include "dialects/support/element_type.h"

using namespace mlir;

namespace ashlar::test {

EmulatedKernels::EmulatedKernels(ModuleOp fused, std::mt19937_64 &random)
    : CompiledKernels(fused, random, /*inPlace=*/true, exec::Target::Cuda) {
  llvm::Expected<cuda::Toolkit> toolkit = cuda::findToolkit();
  if (!toolkit) {
    throw std::runtime_error(llvm::toString(toolkit.takeError()));
  }
  FailureOr<std::string> ptx = cuda::kernelsToPtx(getModule(), *toolkit, cuda::Chip{90});
  if (failed(ptx)) {
    throw std::runtime_error("kernels not translated");
  }
  device = std::make_unique<emulator::PtxRun>(std::move(*ptx));
}

void EmulatedKernels::launch(const Kernel &kernel, ArrayRef<char *> buffers) {
  func::FuncOp function = kernel.function;
  auto sizes = llvm::map_to_vector(function.getArgumentTypes(), [](Type type) { return byteSize(cast<ShapedType>(type)); });
  std::vector<uint64_t> &places = addresses[kernel.name];
  if (places.empty()) {
    // As in an arena, where the next buffer begins on a boundary: the lanes behind the last element are read, and not used.
    llvm::transform(sizes, std::back_inserter(places),
                    [&](int64_t size) { return device->allocate<char>(llvm::alignTo(size, ASHLAR_RT_ALIGNMENT)); });
  }
  for (auto [place, size, buffer] : llvm::zip_equal(places, sizes, buffers)) {
    device->write(place, buffer, size);
  }
  device->runOn(kernel.name, kernel.extent, function->getAttrOfType<IntegerAttr>(exec::kGrainAttr).getInt(), places);
  for (auto [place, size, buffer] : llvm::zip_equal(places, sizes, buffers)) {
    device->read(place, buffer, size);
  }
}

} // namespace ashlar::test

// SPDX-License-Identifier: Apache-2.0
//
// Modules and launches. PTX runs; machine code is looked at only to say whether it fits the device, and cannot run.

#include "test/emulator/driver/device.h"

#include "test/emulator/driver/settings.h"
#include "test/emulator/ptx/lexer.h"

#include <cstring>
#include <elf.h>

using namespace ashlar::emulator;

namespace {

constexpr uint16_t kCudaMachine = 190; // e_machine of a cubin
constexpr int kMaxPtxVersion = 90;     // of a driver for CUDA 13.0

// Machine code runs on devices of its major version, from its minor version on.
CUresult checkBinary(const Elf64_Ehdr &header) {
  if (header.e_machine != kCudaMachine) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const int chip = int(header.e_flags >> 8 & 0xff); // 90 for sm_90
  const Capability device = capability();
  if (chip / 10 != device.major || chip % 10 > device.minor) {
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  say("machine code for sm_" + std::to_string(chip) + " would fit, but cannot be run; set ASHLAR_EMULATOR_CAPABILITY so that it does not");
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Writes a message where the caller asked for the log of errors.
void writeLog(const std::string &message, unsigned count, const CUjit_option *options, void **values) {
  char *buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) {
      buffer = static_cast<char *>(values[i]);
    } else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      size = reinterpret_cast<size_t>(values[i]);
    }
  }
  if (buffer && size != 0) {
    std::strncpy(buffer, message.c_str(), size - 1);
    buffer[size - 1] = 0;
  }
}

CUresult checkText(const Module &module) {
  const Capability device = capability();
  if (module.version > kMaxPtxVersion) {
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  return module.target > device.major * 10 + device.minor ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

bool fits(const Kernel &kernel, const LaunchShape &shape) {
  const uint64_t threads = uint64_t(shape.block[0]) * shape.block[1] * shape.block[2];
  return shape.blocks() != 0 && threads != 0 && threads <= 1024 && (kernel.maxThreads == 0 || threads <= kernel.maxThreads) &&
         (kernel.requiredThreads == 0 || threads == kernel.requiredThreads) && shape.grid[0] <= 0x7fffffff && shape.grid[1] <= 0xffff &&
         shape.grid[2] <= 0xffff && kernel.sharedBytes + shape.dynamicShared <= 48 * 1024;
}

} // namespace

extern "C" {

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *result, const void *image, unsigned int count, CUjit_option *options, void **values) {
  ASHLAR_EMULATOR_ENTER();
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    return checkBinary(*static_cast<const Elf64_Ehdr *>(image));
  }
  auto module = std::make_unique<CUmod_st>();
  module->device = Driver::current();
  try {
    module->module = loadModule(static_cast<const char *>(image), module->device->memory);
  } catch (const PtxError &error) {
    say(std::string("PTX: ") + error.what());
    writeLog(error.what(), count, options, values);
    return CUDA_ERROR_INVALID_PTX;
  }
  if (const CUresult refused = checkText(*module->module)) {
    return refused;
  }
  *result = module.release();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ASHLAR_EMULATOR_ENTER();
  if (!module) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const auto found = module->module->kernels.find(name);
  if (found == module->module->kernels.end()) {
    return CUDA_ERROR_NOT_FOUND;
  }
  *function = new CUfunc_st{module, found->second.get()}; // lives as long as the process
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  ASHLAR_EMULATOR_ENTER();
  if (!module) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (const uint64_t variable : module->module->variables) {
    module->device->memory.release(variable);
  }
  delete module;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ, unsigned int blockX,
                                unsigned int blockY, unsigned int blockZ, unsigned int sharedBytes, CUstream handle, void **parameters,
                                void **extra) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  if (!function || !stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const Kernel &kernel = *function->kernel;
  const LaunchShape shape{{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes};
  if (!fits(kernel, shape) || extra || (!parameters && !kernel.parameterSizes.empty())) {
    say("cuLaunchKernel: the launch of '" + kernel.name + "' does not fit the kernel or the device");
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto packed = std::make_shared<std::vector<std::byte>>(kernel.parameterBytes);
  for (size_t i = 0; i < kernel.parameterSizes.size(); ++i) {
    std::memcpy(packed->data() + kernel.parameterOffsets[i], parameters[i], kernel.parameterSizes[i]);
  }
  CUmod_st *module = function->owner;
  return enqueue(stream, once([=, &kernel] { module->device->machine.launch(*module->module, kernel, shape, packed->data()); }));
}

} // extern "C"

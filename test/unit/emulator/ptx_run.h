// SPDX-License-Identifier: Apache-2.0
//
// Runs kernels of a PTX text on the emulator's machine.

#ifndef ASHLAR_TEST_UNIT_EMULATOR_PTX_RUN_H
#define ASHLAR_TEST_UNIT_EMULATOR_PTX_RUN_H

#include "test/emulator/ptx/lexer.h"
#include "test/emulator/ptx/machine.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ashlar::emulator {

inline std::string readText(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the error of loading a text; "accepted" where there is none.
inline std::string loadError(std::string text) {
  DeviceMemory memory(1 << 20);
  try {
    loadModule(std::move(text), memory);
  } catch (const PtxError &error) {
    return std::string(error.what());
  }
  return "accepted";
}

class PtxRun {
public:
  explicit PtxRun(std::string text, uint64_t seed = 1) : machine(memory, seed), module(loadModule(std::move(text), memory)) {}

  // Returns the address of a copy of the values.
  template <class T> uint64_t upload(const std::vector<T> &values) {
    const uint64_t address = memory.allocate(values.size() * sizeof(T)).value();
    std::memcpy(memory.resolve(address, values.size() * sizeof(T)), values.data(), values.size() * sizeof(T));
    return address;
  }

  template <class T> std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory.resolve(address, count * sizeof(T)), count * sizeof(T));
    return values;
  }

  void write(uint64_t address, const void *bytes, size_t count) { std::memcpy(memory.resolve(address, count), bytes, count); }
  void read(uint64_t address, void *bytes, size_t count) { std::memcpy(bytes, memory.resolve(address, count), count); }

  template <class T> uint64_t allocate(size_t count) { return memory.allocate(count * sizeof(T)).value(); }

  // Runs a kernel with parameters of 4 or 8 bytes each; returns the number of thread instructions.
  template <class... A> uint64_t run(const std::string &name, uint32_t blocks, uint32_t threads, A... arguments) {
    const Kernel &kernel = *module->kernels.at(name);
    std::vector<std::byte> parameters(kernel.parameterBytes);
    size_t index = 0;
    (std::memcpy(parameters.data() + kernel.parameterOffsets.at(index++), &arguments, sizeof arguments), ...);
    return machine.launch(*module, kernel, {{blocks, 1, 1}, {threads, 1, 1}}, parameters.data());
  }

  // Runs a kernel whose parameters are all addresses.
  void runOn(const std::string &name, uint32_t blocks, uint32_t threads, const std::vector<uint64_t> &addresses) {
    const Kernel &kernel = *module->kernels.at(name);
    machine.launch(*module, kernel, {{blocks, 1, 1}, {threads, 1, 1}}, reinterpret_cast<const std::byte *>(addresses.data()));
  }

private:
  DeviceMemory memory{uint64_t(1) << 28};
  Machine machine;
  std::unique_ptr<Module> module;
};

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_UNIT_EMULATOR_PTX_RUN_H

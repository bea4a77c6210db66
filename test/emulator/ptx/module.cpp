// SPDX-License-Identifier: Apache-2.0
//
// Loads a module: its variables get memory, its entries become kernels.

#include "test/emulator/ptx/decoder.h"

#include <cstring>

namespace ashlar::emulator {
namespace {

constexpr uint64_t kMaxStaticShared = 48 * 1024;

uint64_t allocateVariable(const Variable &variable, DeviceMemory &memory) {
  const std::optional<uint64_t> address = memory.allocate(variable.bytes, variable.space == Space::Constant);
  if (!address) {
    throw PtxError(variable.line, "no memory for variable '" + variable.name + "'");
  }
  std::byte *host = memory.resolve(*address, variable.bytes);
  std::memset(host, 0, variable.bytes);
  std::memcpy(host, variable.initial.data(), variable.initial.size());
  return *address;
}

} // namespace

std::string Module::line(int number) const {
  size_t begin = 0;
  for (int i = 1; i < number && begin < text.size(); ++i) {
    begin = text.find('\n', begin) + 1;
  }
  const size_t first = text.find_first_not_of(" \t", begin);
  const size_t end = text.find('\n', begin);
  std::string line = text.substr(first, end == std::string::npos ? end : end - first);
  for (char &c : line) {
    c = c == '\t' ? ' ' : c;
  }
  return line;
}

std::unique_ptr<Module> loadModule(std::string text, DeviceMemory &memory) {
  auto module = std::make_unique<Module>();
  module->text = std::move(text);
  const Syntax syntax = parse(module->text);
  module->target = syntax.target;
  module->version = syntax.version;
  std::unordered_map<std::string, uint64_t> symbols;
  try {
    for (const Variable &variable : syntax.variables) {
      if (variable.space == Space::Global || variable.space == Space::Constant) {
        symbols[variable.name] = module->variables.emplace_back(allocateVariable(variable, memory));
      }
    }
    for (const Function &function : syntax.functions) {
      if (!function.entry || !function.defined) {
        continue;
      }
      std::unique_ptr<Kernel> kernel = Decoder(syntax, symbols).decode(function);
      if (kernel->sharedBytes > kMaxStaticShared) {
        throw PtxError(function.line, "kernel '" + function.name + "' uses " + std::to_string(kernel->sharedBytes) +
                                          " bytes of shared memory, more than " + std::to_string(kMaxStaticShared));
      }
      module->kernels[function.name] = std::move(kernel);
    }
  } catch (const PtxError &error) {
    for (const uint64_t address : module->variables) {
      memory.release(address);
    }
    throw PtxError(error.line, error.message + ": " + module->line(error.line));
  }
  return module;
}

} // namespace ashlar::emulator

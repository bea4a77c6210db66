// SPDX-License-Identifier: Apache-2.0
//
// The temporaries of a program, as packing asks for them.

#include "passes/lower/memory/program.h"

using namespace mlir;

namespace ashlar::lower {

std::pair<std::vector<Lifetime>, std::vector<unsigned>> Program::temporaries() const {
  std::pair<std::vector<Lifetime>, std::vector<unsigned>> result;
  for (auto [i, storage] : llvm::enumerate(storages)) {
    if (storage.temporary) {
      result.first.push_back(storage.lifetime);
      result.second.push_back(i);
    }
  }
  return result;
}

std::vector<BufferRun> Program::temporaryRuns() const {
  std::vector<unsigned> known = temporaries().second;
  DenseMap<unsigned, size_t> indices;
  for (auto [index, storage] : llvm::enumerate(known)) {
    indices[storage] = index;
  }
  std::vector<BufferRun> result;
  for (const SmallVector<unsigned> &run : runs) {
    result.emplace_back();
    llvm::transform(run, std::back_inserter(result.back()), [&](unsigned storage) { return indices.at(storage); });
  }
  return result;
}

} // namespace ashlar::lower

// SPDX-License-Identifier: Apache-2.0
//
// Names to numbers. Whether the tools know a chip is theirs to say (toolkit.h).

#include "compiler/target/cuda/chip.h"

#include "llvm/ADT/STLExtras.h"

namespace ashlar::cuda {
namespace {

// The libraries of CUDA 13, which the runtime loads, support no older chips.
constexpr unsigned kOldestCapability = 75;

llvm::Error refuse(llvm::StringRef name, const llvm::Twine &why) {
  return llvm::createStringError("--gpu-arch: \"" + name + "\" " + why);
}

} // namespace

llvm::Expected<std::vector<Chip>> parseChips(llvm::StringRef list) {
  std::vector<Chip> chips;
  llvm::SmallVector<llvm::StringRef> names;
  list.split(names, ',');
  for (llvm::StringRef name : names) {
    llvm::StringRef digits = name;
    Chip chip;
    if (!digits.consume_front("sm_") || digits.getAsInteger(10, chip.capability) || digits.front() == '0') {
      return refuse(name, "is no name of a chip; names are sm_ and a number, such as sm_90");
    }
    if (chip.capability < kOldestCapability) {
      return refuse(name, "is older than sm_" + llvm::Twine(kOldestCapability) + ", the oldest that CUDA 13 supports");
    }
    if (llvm::any_of(chips, [&](const Chip &other) { return other.capability == chip.capability; })) {
      return refuse(name, "is there twice");
    }
    chips.push_back(chip);
  }
  llvm::sort(chips, [](const Chip &a, const Chip &b) { return a.capability < b.capability; });
  return chips;
}

} // namespace ashlar::cuda

// SPDX-License-Identifier: Apache-2.0
//
// The peak is that of the bytes alive, not of the plan: gaps between buffers have no name.

#include "passes/lower/memory/memory_limit.h"

#include "dialects/support/element_type.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ashlar::lower {
namespace {

// "3.42 GB".
std::string bytesText(uint64_t bytes) {
  static const char *const kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) {
    value /= 1000;
  }
  return unit == 0 ? llvm::formatv("{0} B", bytes).str() : llvm::formatv("{0:F2} {1}", value, kUnits[unit]).str();
}

// A tensor that is alive at the peak.
struct Resident {
  std::string name;
  uint64_t bytes;
};

// The program with the largest live set, and when that is.
struct Peak {
  const Program *program = nullptr;
  int64_t time = 0;
  uint64_t bytes = 0;
};

Peak findPeak(ArrayRef<Program> programs) {
  Peak peak;
  for (const Program &program : programs) {
    std::vector<Lifetime> lifetimes = program.temporaries().first;
    std::vector<int64_t> change(program.instructions.size() + 2, 0);
    for (const Lifetime &lifetime : lifetimes) {
      change[lifetime.first] += alignedBytes(lifetime.bytes);
      change[lifetime.last + 1] -= alignedBytes(lifetime.bytes);
    }
    int64_t live = 0;
    for (auto [time, step] : llvm::enumerate(change)) {
      live += step;
      if (!peak.program || live > static_cast<int64_t>(peak.bytes)) {
        peak = {&program, static_cast<int64_t>(time), static_cast<uint64_t>(live)};
      }
    }
  }
  return peak;
}

// Returns the op that last wrote a storage up to `time`, as its module path.
std::string writerOf(const Program &program, unsigned storage, int64_t time) {
  std::string name;
  for (auto [i, instruction] : llvm::enumerate(program.instructions)) {
    if (static_cast<int64_t>(i) > time) {
      break;
    }
    if (llvm::is_contained(instruction.results, storage)) {
      name = nn::getPath(instruction.loc).str();
    }
  }
  return name.empty() ? "a temporary" : name;
}

SmallVector<Resident> residentsAt(const Peak &peak, const TensorTable &tensors) {
  SmallVector<Resident> residents;
  for (const NamedTensor &tensor : tensors.tensors()) {
    residents.push_back({tensor.name, static_cast<uint64_t>(byteSize(tensor.type))});
  }
  for (auto [i, storage] : llvm::enumerate(peak.program->storages)) {
    if (storage.temporary && storage.lifetime.first <= peak.time && peak.time <= storage.lifetime.last) {
      residents.push_back({writerOf(*peak.program, i, peak.time), storage.lifetime.bytes});
    }
  }
  llvm::sort(residents, [](const Resident &a, const Resident &b) { return std::tie(b.bytes, a.name) < std::tie(a.bytes, b.name); });
  return residents;
}

} // namespace

LogicalResult checkMemoryLimit(ModuleOp module, const MemoryUse &use, uint64_t limit, const TensorTable &tensors,
                               ArrayRef<Program> programs) {
  if (use.bytes() <= limit || programs.empty()) {
    return success();
  }
  constexpr size_t kShown = 8;
  Peak peak = findPeak(programs);
  func::FuncOp function = peak.program->function;
  SmallVector<Resident> residents = residentsAt(peak, tensors);
  auto texts = llvm::map_to_vector(ArrayRef(residents).take_front(kShown),
                                   [](const Resident &resident) { return resident.name + " " + bytesText(resident.bytes); });
  std::string parts = llvm::formatv("arenas {0}, constants {1}", bytesText(use.arenaBytes * use.devices), bytesText(use.constantBytes));
  return module.emitError() << "the program needs " << bytesText(use.bytes()) << " (" << parts << "), but the memory is "
                            << bytesText(limit) << "; @" << function.getSymName() << " needs most, with " << residents.size()
                            << " tensors alive at its peak, the largest: " << llvm::join(texts, ", ")
                            << "; use more devices or a smaller batch";
}

} // namespace ashlar::lower

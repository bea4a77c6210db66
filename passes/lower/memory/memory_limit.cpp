// SPDX-License-Identifier: Apache-2.0
//
// The peak is that of the bytes alive, not of the plan: gaps between buffers have no name.

#include "passes/lower/memory/memory_limit.h"

#include "dialects/nn/programs.h"
#include "dialects/support/byte_text.h"
#include "dialects/support/element_type.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ashlar::lower {
namespace {

constexpr int kDecimals = 2; // of sizes

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
  std::optional<int64_t> owner = tensors.largestOwner();
  auto isThere = [&](const NamedTensor &tensor) { return !tensor.owner || tensor.owner == owner; };
  for (const NamedTensor &tensor : llvm::make_filter_range(tensors.tensors(), isThere)) {
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

// Whether tensors that one collective of several takes are alive at the peak, waiting for the others.
bool holdsBucket(const Peak &peak) {
  return llvm::any_of(peak.program->runs, [&](ArrayRef<unsigned> run) {
    return run.size() > 1 && llvm::any_of(run, [&](unsigned i) {
             const Storage &storage = peak.program->storages[i];
             return storage.temporary && storage.lifetime.first <= peak.time && peak.time <= storage.lifetime.last;
           });
  });
}

// Whether every device holds all of most bytes of the tensors that `chosen` picks.
template <typename Chosen> bool holdsReplicated(const TensorTable &tensors, Chosen chosen) {
  int64_t replicated = 0, all = 0;
  for (const NamedTensor &tensor : llvm::make_filter_range(tensors.tensors(), chosen)) {
    bool isReplicated = llvm::all_of(tensor.splits, [](ArrayRef<int64_t> axes) { return axes.empty(); });
    replicated += isReplicated ? byteSize(tensor.type) : 0;
    all += byteSize(tensor.type);
  }
  return 2 * replicated > all;
}

// Whether collectives of the program run beside others, and so hold what they read and write for longer.
bool startsCollectives(const Program &program) {
  return llvm::any_of(program.instructions, [](const Instruction &instruction) { return isa_and_present<exec::AwaitOp>(instruction.op); });
}

// What makes the program smaller, the cheapest first.
std::string remediesFor(const Peak &peak, const TensorTable &tensors, ArrayRef<Program> programs, exec::VariantOp variant) {
  bool hasMesh = llvm::any_of(variant.getAxisSizes(), [](int64_t size) { return size > 1; });
  SmallVector<StringRef> remedies = {"use more devices or a smaller batch"};
  if (variant.getDevicesPerProcess() > 1) {
    remedies.push_back("fewer deterministic.chunks");
  }
  auto trains = [](const Program &program) { return nn::hasRole(program.function, nn::ProgramRole::TrainStep); };
  auto isOnce = [](const Program &program) { return nn::isOncePerStep(program.function); };
  if (variant.getNumStages() > 1) {
    remedies.push_back("more stages or micro-batches");
  }
  if (holdsBucket(peak)) {
    remedies.push_back("smaller buckets of comm_fusion");
  }
  if (llvm::any_of(programs, [](const Program &program) { return startsCollectives(program); })) {
    remedies.push_back("--no-overlap");
  }
  if (llvm::none_of(programs, trains)) {
    return remedies.size() == 1 ? remedies[0].str() : llvm::join(remedies, ", or ");
  }
  if (hasMesh && holdsReplicated(tensors, [](const NamedTensor &tensor) { return tensor.stateOf != nullptr && !tensor.isScratch; })) {
    remedies.push_back("optimizer_parallel of level 1, since every device holds all of the state");
  } else if (hasMesh && holdsReplicated(tensors, [](const NamedTensor &tensor) { return tensor.role == exec::Role::Variable; })) {
    remedies.push_back("optimizer_parallel of level 3, since every device holds all of the parameters");
  }
  if (llvm::none_of(programs, isOnce)) {
    remedies.push_back("accumulate, which runs the batch in parts");
  }
  return llvm::join(remedies, ", or ");
}

} // namespace

LogicalResult checkMemoryLimit(ModuleOp module, const MemoryUse &use, uint64_t limit, const TensorTable &tensors,
                               ArrayRef<Program> programs, exec::VariantOp variant) {
  if (use.bytes() <= limit || programs.empty()) {
    return success();
  }
  constexpr size_t kShown = 8;
  Peak peak = findPeak(programs);
  func::FuncOp function = peak.program->function;
  SmallVector<Resident> residents = residentsAt(peak, tensors);
  auto texts = llvm::map_to_vector(ArrayRef(residents).take_front(kShown),
                                   [](const Resident &resident) { return resident.name + " " + bytesText(resident.bytes, kDecimals); });
  auto parts = llvm::map_to_vector(use.parts, [](const MemoryPart &part) { return part.name + " " + bytesText(part.bytes, kDecimals); });
  int64_t played = variant.getDevicesPerProcess();
  std::string which = variant.getNumStages() > 1 ? llvm::formatv("stage {0} of {1}", variant.getStage(), variant.getNumStages()).str()
                      : played == 1 ? "the program"
                                    : llvm::formatv("the {0} program, {1} devices a rank,", variant.getSymName(), played).str();
  const auto [needed, given] = comparedBytes(use.bytes(), limit, kDecimals);
  return module.emitError() << which << " needs " << needed << " (" << llvm::join(parts, ", ") << "), but the memory is " << given << "; @"
                            << function.getSymName() << " needs most, with " << residents.size()
                            << " tensors alive at its peak, the largest: " << llvm::join(texts, ", ") << "; "
                            << remediesFor(peak, tensors, programs, variant);
}

} // namespace ashlar::lower

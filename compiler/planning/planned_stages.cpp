// SPDX-License-Identifier: Apache-2.0
//
// Planned module -> what a rank of each stage takes.

#include "compiler/planning/planned_stages.h"

#include "compiler/cost/machine.h"
#include "dialects/support/element_type.h"
#include "passes/lower/memory/constant_pool.h"
#include "runtime/abi/ashlar_rt.h"

#include "llvm/Support/MathExtras.h"

#include <map>
#include <numeric>

using namespace mlir;

namespace ashlar::planning {
namespace {

// Returns the bytes of the constants that a stage reads: each has its own.
uint64_t constantBytes(exec::VariantOp stage) {
  std::map<uint64_t, uint64_t> read; // by offset
  stage.walk([&](exec::InstrOpInterface instr) {
    const SmallVector<int64_t> counts = exec::repeatsAround(instr);
    for (const exec::BufferUse &use : instr.getUses()) {
      if (use.buffer.getSpace() == exec::Space::Constant) {
        exec::BufferAttr swept = use.buffer.getSwept(counts);
        uint64_t &most = read[swept.getOffset()];
        most = std::max(most, llvm::alignTo(byteSize(swept.getType()), ASHLAR_RT_ALIGNMENT));
      }
    }
  });
  uint64_t bytes = 0;
  for (auto [offset, size] : read) {
    bytes += size;
  }
  return bytes;
}

} // namespace

SmallVector<exec::VariantOp> tablesOf(ModuleOp planned) {
  return llvm::to_vector(planned.getOps<exec::VariantOp>());
}

std::vector<lower::MemoryUse> countMemory(ModuleOp planned, const pipelines::Variant &variant) {
  lower::ConstantPool constants;
  constants.read(planned);
  std::vector<lower::MemoryUse> uses;
  for (exec::VariantOp stage : tablesOf(planned)) {
    uint64_t bytes = variant.pipeline ? constantBytes(stage) : constants.getBytes();
    uses.push_back(lower::memoryUse(stage, {variant.target, bytes, variant.ranksPerHost}));
  }
  return uses;
}

std::optional<report::PipelineFacts> describePipeline(ModuleOp planned, const pipelines::Variant &variant, const job::Job &job) {
  if (!variant.pipeline) {
    return std::nullopt;
  }
  SmallVector<exec::VariantOp> stages = tablesOf(planned);
  ArrayRef<int64_t> sizes = stages.front().getAxisSizes();
  const int64_t devices = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
  dist::HostsAttr hosts = cost::hostsOf(planned.getContext(), cost::machineOf(job, variant.target), /*devicesPerRank=*/1);
  auto linkOf = [&](int64_t from, int64_t to) { return analysis::stageLink(hosts, devices, from, to); };
  return report::makePipelineFacts(
      stages, {variant.pipeline->orderFile.empty() ? stage::stringifySchedule(variant.pipeline->schedule).str() : "an order of its own",
               variant.pipeline->microBatches, countMemory(planned, variant), linkOf});
}

} // namespace ashlar::planning

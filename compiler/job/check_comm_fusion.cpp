// SPDX-License-Identifier: Apache-2.0
//
// One kind of collective after the other.

#include "compiler/job/check_comm_fusion.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace ashlar::job {

namespace {

Fault checkSetting(const std::string &kind, const CommFusion::Setting &setting) {
  std::string path = "comm_fusion." + kind, mode = CommFusion::FusionMode_Name(setting.mode());
  if (setting.has_size_mb() && setting.mode() != CommFusion::SIZE) {
    return llvm::formatv("{0}.size_mb {1} is for mode SIZE, and the mode is {2}; set mode: SIZE or leave it out", path, setting.size_mb(),
                         mode);
  }
  if (setting.index_size() > 0 && setting.mode() != CommFusion::INDEX) {
    return llvm::formatv("{0}.index {1} is for mode INDEX, and the mode is {2}; set mode: INDEX or leave it out", path, setting.index(0),
                         mode);
  }
  if (setting.index_size() == 0 && setting.mode() == CommFusion::INDEX) {
    return path + " has mode INDEX but no index; add index: [20, 35] for the first 20, the next 15 and the rest";
  }
  for (int i = 1; i < setting.index_size(); ++i) {
    if (setting.index(i) <= setting.index(i - 1)) {
      return llvm::formatv("{0}.index has {1} after {2}; the numbers count from the first collective on and have to grow", path,
                           setting.index(i), setting.index(i - 1));
    }
  }
  return {};
}

} // namespace

Fault checkCommFusion(const Job &job) {
  if (!job.has_comm_fusion()) {
    return {};
  }
  const CommFusion &fusion = job.comm_fusion();
  if (job.mesh().axes_size() == 0) {
    return "comm_fusion puts collectives together, and without a mesh there are none; add a mesh or leave it out";
  }
  if (!fusion.has_all_reduce() && !fusion.has_all_gather() && !fusion.has_reduce_scatter()) {
    return "comm_fusion names no kind of collective; one of all_reduce, all_gather, reduce_scatter";
  }
  const std::pair<const char *, const CommFusion::Setting *> kinds[] = {
      {"all_reduce", &fusion.all_reduce()}, {"all_gather", &fusion.all_gather()}, {"reduce_scatter", &fusion.reduce_scatter()}};
  for (const auto &[kind, setting] : kinds) {
    if (Fault fault = checkSetting(kind, *setting); !fault.empty()) {
      return fault;
    }
  }
  return {};
}

} // namespace ashlar::job

// SPDX-License-Identifier: Apache-2.0
//
// File -> machine of the cost model -> links of the mesh -> links of a simulation.

#include "tools/ashlar_sim/other_machine.h"

#include "compiler/cost/machine.h"
#include "compiler/job/machine_file.h"
#include "compiler/target/abi_numbers.h"
#include "dialects/exec/target_traits.h"

#include "mlir/IR/MLIRContext.h"

#include <cstring>

namespace ashlar::sim {
namespace {

ashlar_rt_link linkOf(const analysis::Link &link) {
  ashlar_rt_link result = {};
  for (CollectiveKind kind : analysis::kSendingKinds) {
    const analysis::MessageCost cost = link.of(kind);
    result.costs[target::kindOf(kind)] = {static_cast<uint64_t>(cost.latencyNs), static_cast<uint64_t>(cost.bytesPerUs)};
  }
  result.moves_beside = link.movesBeside;
  return result;
}

} // namespace

rt::Status readOtherMachine(const std::string &path, const ashlar_rt_image &image, const rt::Stages &stages, rt::SimulatedMachine &machine,
                            std::vector<std::string> &notes) {
  llvm::Expected<job::Machine> given = job::readMachine(path);
  if (!given) {
    return rt::invalid("{}", llvm::toString(given.takeError()));
  }
  const exec::Target target = std::strcmp(image.target, "cuda") == 0 ? exec::Target::Cuda : exec::Target::Cpu;
  job::Job job;
  *job.mutable_machine() = *given;
  if (given->has_preset() && !exec::traitsOf(target).hasPresets) {
    return rt::invalid("{}: machine.preset {} is of GPUs, and the target of the executable is {}; leave it out", path,
                       job::Machine::Preset_Name(given->preset()), image.target);
  }
  const ashlar_rt_variant &first = stages[0];
  llvm::SmallVector<int64_t> sizes, deviceIds;
  int64_t devices = 1;
  for (uint32_t i = 0; i < first.num_axes; ++i) {
    sizes.push_back(first.axes[i].size);
    devices *= first.axes[i].size;
  }
  if (first.device_ids != nullptr) {
    deviceIds.assign(first.device_ids, first.device_ids + devices);
  }
  const cost::Machine other = cost::machineOf(job, target);
  const int64_t ranks = devices * stages.size();
  if (given->has_ranks_per_host() && other.ranksPerHost < ranks && !given->has_inter_host() && !given->has_preset()) {
    return rt::invalid(
        "{}: has no machine.inter_host, and {} ranks are on hosts of {}; add inter_host {{ latency_us: 5 bandwidth_gb_per_s: 12 }}", path,
        ranks, other.ranksPerHost);
  }
  mlir::MLIRContext context;
  context.loadDialect<dist::DistDialect>();
  const dist::HostsAttr hosts = cost::hostsOf(&context, other, /*devicesPerRank=*/1);
  machine = rt::SimulatedMachine();
  machine.ranksPerHost = other.ranksPerHost;
  machine.adaptersPerHost = other.adaptersPerHost;
  machine.hasRails = other.hasRails;
  machine.adapterBytesPerUs = static_cast<uint64_t>(other.interHost.of(CollectiveKind::Permute).bytesPerUs);
  if (other.hostsPerPod != 0) {
    machine.hostsPerPod = other.hostsPerPod;
    machine.uplinksPerPod = other.uplinksPerPod;
    machine.uplinkBytesPerUs = static_cast<uint64_t>(other.interPod.of(CollectiveKind::Permute).bytesPerUs);
  }
  machine.handOverPs = exec::traitsOf(target).handOverPs;
  for (const analysis::Link &link : analysis::hostLinks(hosts, sizes, deviceIds)) {
    machine.axes.push_back(linkOf(link));
  }
  for (uint32_t to = 0; to < stages.size(); ++to) {
    std::vector<ashlar_rt_link> &ends = machine.stages.emplace_back();
    for (uint32_t from = 0; from < stages.size(); ++from) {
      ends.push_back(linkOf(analysis::stageLink(hosts, devices, from, to)));
    }
  }
  notes.push_back("machine      links of " + path);
  if (given->has_device()) {
    notes.push_back("             its device rates have no effect: instructions have the times of the machine that they were compiled for");
  }
  return rt::Status();
}

} // namespace ashlar::sim

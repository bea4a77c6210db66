// SPDX-License-Identifier: Apache-2.0
//
// One table after the other.

#include "compiler/job/check_machine.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/FormatVariadic.h"

namespace ashlar::job {

namespace {

using Rates = google::protobuf::RepeatedPtrField<Machine::ShapeRate>;

Fault checkRates(const std::string &path, const Rates &rates) {
  for (int i = 0; i < rates.size(); ++i) {
    if (!rates[i].has_from() || !rates[i].has_gflop_per_s()) {
      return llvm::formatv("entry {0} of {1} has no {2}; write {{ from: 64 gflop_per_s: 80 }", i + 1, path,
                           rates[i].has_from() ? "gflop_per_s" : "from");
    }
    if (i > 0 && rates[i].from() <= rates[i - 1].from()) {
      return llvm::formatv("{0} has from {1} after {2}; the sizes have to grow", path, rates[i].from(), rates[i - 1].from());
    }
  }
  return {};
}

Fault checkLinks(const std::string &path, const Machine::LinkClass &links) {
  llvm::SmallSet<int, 8> kinds;
  for (const Machine::CollectiveRate &rate : links.collectives()) {
    if (!rate.has_kind()) {
      return path + ".collectives has an entry without a kind; write { kind: ALL_GATHER bandwidth_gb_per_s: 10 }";
    }
    const std::string kind = Machine::CollectiveRate::Kind_Name(rate.kind());
    if (!rate.has_latency_us() && !rate.has_bandwidth_gb_per_s()) {
      return path + ".collectives lacks " + kind + "; give it latency_us or bandwidth_gb_per_s, or leave it out";
    }
    if (!kinds.insert(rate.kind()).second) {
      return path + ".collectives has " + kind + " twice; leave out one";
    }
  }
  return {};
}

// Checks that a machine with pods has all that describes them, and another one nothing of it.
Fault checkPods(const Machine &machine) {
  if (!machine.has_hosts_per_pod()) {
    if (!machine.has_inter_pod() && !machine.has_uplinks_per_pod()) {
      return {};
    }
    return llvm::formatv("machine.{0} is of pods, but there is no machine.hosts_per_pod; add hosts_per_pod: 32, or leave it out",
                         machine.has_inter_pod() ? "inter_pod" : "uplinks_per_pod");
  }
  if (!machine.has_ranks_per_host() && !machine.has_preset()) {
    return llvm::formatv("machine.hosts_per_pod is {0}, but all ranks are on one host; add ranks_per_host: 8", machine.hosts_per_pod());
  }
  if (!machine.has_inter_pod()) {
    return llvm::formatv("machine.hosts_per_pod is {0}, but there is no machine.inter_pod; add inter_pod {{ latency_us: 14 "
                         "bandwidth_gb_per_s: 48 }",
                         machine.hosts_per_pod());
  }
  return {};
}

// Checks that the ranks of a host divide among its rails.
Fault checkRails(const Machine &machine) {
  if (!machine.rails()) {
    return {};
  }
  if (!machine.has_ranks_per_host() || !machine.has_adapters_per_host()) {
    return llvm::formatv("machine.rails is true, but there is no machine.{0}; add {0}: 8",
                         machine.has_ranks_per_host() ? "adapters_per_host" : "ranks_per_host");
  }
  if (machine.ranks_per_host() % machine.adapters_per_host() != 0) {
    return llvm::formatv(
        "machine.rails is true, but machine.ranks_per_host {0} is not divisible by machine.adapters_per_host {1}; each adapter "
        "is of equally many ranks",
        machine.ranks_per_host(), machine.adapters_per_host());
  }
  return {};
}

} // namespace

Fault checkMachine(const Job &job) {
  const Machine &machine = job.machine();
  for (const Fault &fault : {checkRates("machine.device.products", machine.device().products()),
                             checkRates("machine.device.convolutions", machine.device().convolutions()),
                             checkRates("machine.device.attentions", machine.device().attentions()),
                             checkLinks("machine.intra_host", machine.intra_host()), checkLinks("machine.inter_host", machine.inter_host()),
                             checkLinks("machine.inter_pod", machine.inter_pod()), checkPods(machine), checkRails(machine)}) {
    if (!fault.empty()) {
      return fault;
    }
  }
  return {};
}

} // namespace ashlar::job

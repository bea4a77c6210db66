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

} // namespace

Fault checkMachine(const Job &job) {
  const Machine &machine = job.machine();
  for (const Fault &fault :
       {checkRates("machine.device.products", machine.device().products()),
        checkRates("machine.device.convolutions", machine.device().convolutions()),
        checkRates("machine.device.attentions", machine.device().attentions()), checkLinks("machine.intra_host", machine.intra_host()),
        checkLinks("machine.inter_host", machine.inter_host())}) {
    if (!fault.empty()) {
      return fault;
    }
  }
  return {};
}

} // namespace ashlar::job

// SPDX-License-Identifier: Apache-2.0
//
// The machine that a program will run on: its hosts, the links within and between them, and its devices. Passes get it as numbers on
// dist.mesh, one link an axis, and on the module.

#ifndef ASHLAR_COMPILER_COST_MACHINE_H
#define ASHLAR_COMPILER_COST_MACHINE_H

#include "compiler/job/job.pb.h"
#include "dialects/exec/exec.h"
#include "passes/analysis/costs.h"

namespace ashlar::cost {

// Ranks r with equal r / ranksPerHost share a host, and its adapters; hosts h with equal h / hostsPerPod a pod, and its uplinks.
struct Machine {
  int64_t ranksPerHost = INT64_MAX, adaptersPerHost = 1;
  analysis::Link intraHost, interHost;        // the latter of an adapter
  bool sendsAtOnce = false;                   // a host to all others (dist.hosts)
  analysis::DeviceRates device;               // of a rank
  int64_t hostsPerPod = 0, uplinksPerPod = 0; // 0: all hosts are one pod
  analysis::Link interPod = {};               // of an uplink
  bool hasRails = false;                      // each adapter has ranks of its own
};

// Returns the machine that a checked job describes; defaults are the target's.
Machine machineOf(const job::Job &job, exec::Target target = exec::Target::Cpu);

// Returns the hosts of a mesh on the machine, of which each rank plays `devicesPerRank` devices.
dist::HostsAttr hostsOf(mlir::MLIRContext *context, const Machine &machine, int64_t devicesPerRank);

} // namespace ashlar::cost

#endif // ASHLAR_COMPILER_COST_MACHINE_H

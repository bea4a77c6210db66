// RUN: ashlar-opt %s -split-input-file '-ashlar-seed-layouts=mesh=dp=2,tp=2 device-ids=0,2,1,3 latency-ns=5200,200 bytes-per-us=1200,29000' | FileCheck %s

// What the compiler knows of the machine stands on the mesh, a new one or one that is there.
// CHECK: dist.mesh @mesh <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000]>, device_ids = array<i64: 0, 2, 1, 3>}
func.func @new() {
  return
}

// -----

// CHECK: dist.mesh @mine <["dp" = 2, "tp" = 2]> {costs = #dist.costs<latency_ns = [5200, 200], bytes_per_us = [1200, 29000]>, device_ids = array<i64: 0, 2, 1, 3>}
dist.mesh @mine <["dp" = 2, "tp" = 2]>
func.func @there() {
  return
}

// SPDX-License-Identifier: Apache-2.0
//
// bench_cuda_matmul --probe: which products cuBLASLt takes, and computes right.

#ifndef ASHLAR_TEST_BENCH_CUDA_MATMUL_PROBE_H
#define ASHLAR_TEST_BENCH_CUDA_MATMUL_PROBE_H

namespace ashlar::bench {

// Prepares every product of a table as a program would, runs it, and compares a sample of the results with sums on the host. Prints a line
// for each refused one, and whether its replacement is right; for each wrong one; and a count. `small`: of small sizes, for the emulator.
// Returns the exit status: 1 where a result is wrong or the library cannot be used, 77 where there is no GPU.
int probeMatmuls(bool small);

} // namespace ashlar::bench

#endif // ASHLAR_TEST_BENCH_CUDA_MATMUL_PROBE_H

// SPDX-License-Identifier: Apache-2.0
//
// Which graphs of a convolution with other operations cuDNN has an engine for. They are planned, not run: no program has them yet
// (docs/convolution.md).

#ifndef ASHLAR_TEST_BENCH_CUDA_CONV_FUSIONS_H
#define ASHLAR_TEST_BENCH_CUDA_CONV_FUSIONS_H

#include "runtime/base/status.h"

#include <string>
#include <vector>

namespace ashlar::bench {

// Appends a line for each graph: its first engine, or why there is none. Assumes a current context; fails where the library cannot be used.
rt::Status listConvolutionFusions(std::vector<std::string> &lines);

} // namespace ashlar::bench

#endif // ASHLAR_TEST_BENCH_CUDA_CONV_FUSIONS_H

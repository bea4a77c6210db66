// SPDX-License-Identifier: Apache-2.0
//
// Hand-written images whose kernels are plain C functions: two tiny programs as the compiler would emit them, for tests of the runtime.

#ifndef ASHLAR_TEST_UNIT_RUNTIME_TOY_IMAGE_H
#define ASHLAR_TEST_UNIT_RUNTIME_TOY_IMAGE_H

#include "runtime/abi/ashlar_rt.h"

#include <cstdint>
#include <memory>

namespace ashlar::test {

// Owns an image and everything it points to.
class ToyImage {
public:
  virtual ~ToyImage() = default;

  // Valid while this object lives.
  virtual const ashlar_rt_image &image() const = 0;
};

// y = w0 x0 + w1 x1 + b, trained by SGD on the regression generator, batch 16 split over an axis "dp". The default variant has `ranks`
// devices; the deterministic one 8, spread over `ranks` processes. Assumes that ranks divides 8. Also has eval_step.
std::unique_ptr<ToyImage> makeToyTraining(uint32_t ranks);

// The forward program: "x" (8, 3), split by rows over `ranks` devices -> "twice" = 2 x, split likewise, and "product" = x w + b of shape
// (8, 2) by the matrix product of the runtime, gathered on every device. Assumes that ranks divides 8.
std::unique_ptr<ToyImage> makeToyForward(uint32_t ranks);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_RUNTIME_TOY_IMAGE_H

// SPDX-License-Identifier: Apache-2.0
//
// The transforms of a feature, prepared once: shapes checked, scales and shifts folded into the step before them, tables of resizing
// computed, memory taken. Then a sample goes through it without allocation.

#ifndef ASHLAR_RUNTIME_DATA_TRANSFORM_CHAIN_H
#define ASHLAR_RUNTIME_DATA_TRANSFORM_CHAIN_H

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sample_random.h"

#include <memory>

namespace ashlar::rt {

class SampleSteps;

// A chain for samples of one column. Copies share their memory: one thread uses them.
class TransformChain {
public:
  // Makes the chain of `count` transforms for samples of `column` that go to elements of type `to`. Errors name the column, the transform
  // and the misfit.
  static Status create(const Column &column, const ashlar_rt_transform *transforms, uint32_t count, uint32_t to, TransformChain &chain);

  // Returns the shape of a result.
  const std::vector<int64_t> &shape() const { return resultShape; }

  // Whether it only scales and shifts all elements alike: x * scale() + shift(). Then there is nothing to run.
  bool isPlain() const { return steps == nullptr; }
  double scale() const { return plainScale; }
  double shift() const { return plainShift; }

  // Returns the type of results, in which the chain computes: f64 where column or result are f64, i32 or i64, else f32.
  uint32_t computed() const { return computedType; }

  // Writes the transformed sample: as many elements of computed() as shape() has. Assumes that the chain is not plain.
  void run(const void *sample, const SampleRandom &random, void *to) const;

private:
  std::vector<int64_t> resultShape;
  double plainScale = 1, plainShift = 0;
  uint32_t computedType = ASHLAR_RT_F32;
  std::shared_ptr<SampleSteps> steps;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_TRANSFORM_CHAIN_H

// SPDX-License-Identifier: Apache-2.0
//
// Random meshes, sizes and layouts.

#ifndef ASHLAR_TEST_FUZZ_RANDOM_LAYOUT_H
#define ASHLAR_TEST_FUZZ_RANDOM_LAYOUT_H

#include "dialects/dist/dist.h"

#include <random>

namespace ashlar::fuzz {

// Draws numbers. The same seed draws the same numbers on every machine.
class Dice {
public:
  explicit Dice(uint64_t seed) : engine(seed) {}

  // Returns a number in [0, limit).
  int64_t roll(int64_t limit) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit)); }

  // Returns true once in `n` times.
  bool oneIn(int64_t n) { return roll(n) == 0; }

  // Returns a number in [-1, 1) that has no short form, so that sums of several are never equal by chance.
  double real() { return static_cast<double>(engine() >> 11) * 0x1p-52 - 1; }

  template <typename Range> auto pick(const Range &range) { return range[roll(std::size(range))]; }

private:
  std::mt19937_64 engine;
};

// Returns a mesh of 1 to 3 axes "x", "y", "z" and at most 12 devices; some axes have size 1.
dist::MeshAttr randomMesh(Dice &dice, mlir::MLIRContext &context);

// Returns sizes for dims: half of them are divisible by the axes of the mesh.
llvm::SmallVector<int64_t> randomSizes(Dice &dice, dist::MeshAttr mesh);

// Returns a layout that splits random dims over random axes; not partial. Dims are divided evenly unless `uneven`.
dist::Layout randomLayout(Dice &dice, dist::MeshAttr mesh, llvm::ArrayRef<int64_t> shape, bool uneven);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_RANDOM_LAYOUT_H

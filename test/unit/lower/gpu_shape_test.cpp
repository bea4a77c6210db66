// SPDX-License-Identifier: Apache-2.0
//
// How rows and columns are shared out between blocks and threads of a GPU.

#include "passes/lower/kernels/gpu/gpu_shape.h"

#include <catch2/catch.hpp>

namespace ashlar::test::gpu_shape_test {

using namespace ashlar::lower;

TEST_CASE("gpu shape: short rows have a warp or a part of one", "[lower][gpu]") {
  GpuRowShape ten = shareOutRows(/*rows=*/1 << 20, /*elements=*/10, /*lanes=*/2, /*heldBytes=*/4);
  CHECK(ten.threads == 8);
  CHECK(ten.rowsABlock == 16);
  CHECK(ten.chunks == 1);
  GpuRowShape row = shareOutRows(/*rows=*/1 << 20, /*elements=*/1024, /*lanes=*/4, /*heldBytes=*/4);
  CHECK(row.threads == 32);
  CHECK(row.rowsABlock == 4);
  CHECK(row.chunks == 8);
  CHECK(row.inRegisters);
  CHECK(shareOutRows(/*rows=*/1 << 20, /*elements=*/0, /*lanes=*/4, /*heldBytes=*/4).chunks == 0);
  CHECK(shareOutRows(/*rows=*/1 << 20, /*elements=*/1, /*lanes=*/1, /*heldBytes=*/4).threads == 1);
}

TEST_CASE("gpu shape: long rows have a block, and loops when registers run out", "[lower][gpu]") {
  GpuRowShape block = shareOutRows(/*rows=*/1 << 20, /*elements=*/1028, /*lanes=*/4, /*heldBytes=*/4);
  CHECK(block.threads == 256);
  CHECK(block.rowsABlock == 1);
  CHECK(shareOutRows(/*rows=*/1 << 20, /*elements=*/8192, /*lanes=*/4, /*heldBytes=*/4).threads == 1024);
  CHECK(shareOutRows(/*rows=*/1 << 20, /*elements=*/32768, /*lanes=*/4, /*heldBytes=*/4).inRegisters);
  GpuRowShape loops = shareOutRows(/*rows=*/1 << 20, /*elements=*/32769, /*lanes=*/1, /*heldBytes=*/4);
  CHECK_FALSE(loops.inRegisters);
  CHECK(loops.threads == 1024);
  CHECK(loops.rowsABlock == 1);
}

// 1024 elements of 12 bytes would take a thread of a warp 96 registers.
TEST_CASE("gpu shape: values held between passes ask for more threads", "[lower][gpu]") {
  GpuRowShape row = shareOutRows(/*rows=*/1 << 20, /*elements=*/1024, /*lanes=*/4, /*heldBytes=*/12);
  CHECK(row.inRegisters);
  CHECK(row.threads == 64);
  CHECK(row.rowsABlock == 1);
}

// 768 warps are 192 blocks of four, which leave multiprocessors without two; of two rows there are 384.
TEST_CASE("gpu shape: few rows have small blocks", "[lower][gpu]") {
  CHECK(shareOutRows(/*rows=*/768, /*elements=*/768, /*lanes=*/4, /*heldBytes=*/4).rowsABlock == 2);
  CHECK(shareOutRows(/*rows=*/4, /*elements=*/768, /*lanes=*/4, /*heldBytes=*/4).rowsABlock == 1);
  CHECK(shareOutRows(/*rows=*/4, /*elements=*/10, /*lanes=*/2, /*heldBytes=*/4).rowsABlock == 4); // a warp
}

TEST_CASE("gpu shape: columns", "[lower][gpu]") {
  GpuColumnShape wide = shareOutColumns(/*rows=*/8192, /*columns=*/4096, /*lanes=*/4, /*accumulatorBytes=*/4);
  CHECK(wide.across == 32);
  CHECK(wide.down == 8);
  CHECK(wide.blocks == 32);
  GpuColumnShape narrow = shareOutColumns(/*rows=*/8192, /*columns=*/10, /*lanes=*/2, /*accumulatorBytes=*/4);
  CHECK(narrow.across == 8);
  CHECK(narrow.down == 32);
  CHECK(narrow.blocks == 1);
  CHECK(shareOutColumns(/*rows=*/1, /*columns=*/4096, /*lanes=*/4, /*accumulatorBytes=*/4).down == 1);
  // Shared memory of a block ends at 48 KiB.
  GpuColumnShape many = shareOutColumns(/*rows=*/8192, /*columns=*/4096, /*lanes=*/4, /*accumulatorBytes=*/64);
  CHECK(many.across * many.down * many.lanes * 64 <= 48 * 1024);
}

TEST_CASE("gpu shape: segments fill the chip, divide the rows and are worth a block", "[lower][gpu]") {
  CHECK(countSegments(/*size=*/8192, /*elements=*/4096, /*blocks=*/32) == 16);
  CHECK(countSegments(/*size=*/8192, /*elements=*/4096, /*blocks=*/512) == 1);
  CHECK(countSegments(/*size=*/1 << 20, /*elements=*/1, /*blocks=*/1) == 64);
  CHECK(countSegments(/*size=*/1000, /*elements=*/16, /*blocks=*/1) == 1);
  CHECK(countSegments(/*size=*/256, /*elements=*/512, /*blocks=*/4) == 1); // a second kernel would take longer
  CHECK(countSegments(/*size=*/2, /*elements=*/1 << 20, /*blocks=*/1) == 1);
  CHECK(countSegments(/*size=*/131101, /*elements=*/1, /*blocks=*/1) == 1); // a prime
}

} // namespace ashlar::test::gpu_shape_test

// SPDX-License-Identifier: Apache-2.0
//
// Slices, pads, concatenations and reshapes along a sharded dim: rows go to the devices that need them, and the results are those of one
// device.

#include "test/unit/layout/measured_partition.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include "llvm/Support/FormatVariadic.h"

#include <catch2/catch.hpp>

namespace ashlar::test::moved_rows_test {

using namespace mlir;

namespace {

// Returns a module with a mesh of one axis "x" and a function @f of %x: its result is %y. Both are sharded along dim 0, the result unless
// it `isReplicated`.
OwningOpRef<ModuleOp> program(int64_t devices, StringRef from, StringRef body, StringRef to, bool isReplicated = false) {
  constexpr const char *kText = R"(
    func.func @f(%x: tensor<{0}> {dist.layout = #dist.layout<[{{"x"}, {{}]>}) -> (tensor<{1}> {dist.layout = #dist.layout<[{2}, {{}]>}) {{
      {3}
      return %y : tensor<{1}>
    })";
  OwningOpRef<ModuleOp> module = parse(llvm::formatv(kText, from, to, isReplicated ? "{}" : "{\"x\"}", body).str());
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  dist::MeshOp::create(builder, module->getLoc(), "mesh", meshOf(context(), {{"x", devices}}));
  return module;
}

// Returns a module that reshapes %x, of which and of the result dim 0 is sharded over an axis "x".
OwningOpRef<ModuleOp> reshape(int64_t devices, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  auto type = [](ArrayRef<int64_t> shape) {
    return "tensor<" + llvm::join(llvm::map_range(shape, [](int64_t n) { return std::to_string(n); }), "x") + "xf64>";
  };
  auto layout = [](ArrayRef<int64_t> shape) {
    std::string dims = "{\"x\"}";
    for (size_t dim = 1; dim < shape.size(); ++dim) {
      dims += ", {}";
    }
    return "{dist.layout = #dist.layout<[" + dims + "]>}";
  };
  OwningOpRef<ModuleOp> module = parse("func.func @f(%x: " + type(from) + " " + layout(from) + ") -> (" + type(to) + " " + layout(to) +
                                       ") {\n%y = nn.reshape %x : " + type(from) + " -> " + type(to) + "\nreturn %y : " + type(to) + "\n}");
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  dist::MeshOp::create(builder, module->getLoc(), "mesh", meshOf(context(), {{"x", devices}}));
  return module;
}

// Partitions a program, whose results are to be those of one device, bit by bit.
MeasuredPartition partitioned(ModuleOp module) {
  MeasuredPartition found = measurePartition(module);
  CHECK(found.difference == 0);
  return found;
}

} // namespace

// Rows of 2 f64: 16 bytes.
TEST_CASE("moved rows: a device sends the rows that others need, and nothing else", "[moved_rows]") {
  struct Case {
    const char *name, *body, *to;
    int64_t rows; // that the device sends which sends most, of 16 rows on 4 devices
    int64_t halos;
    bool isReplicated = false;
    int64_t others = 0;
  };
  const Case cases[] = {
      // Devices 0 to 3 of the result have the rows 0 1 | 2 3 | 4 5 | 6 7: device 1 sends 4 5 and 6 7.
      {"the first half", "%y = nn.slice %x [0, 0] to [8, 2] by [1, 1] : tensor<16x2xf64> -> tensor<8x2xf64>", "8x2xf64", 4, 1},
      {"the second half", "%y = nn.slice %x [8, 0] to [16, 2] by [1, 1] : tensor<16x2xf64> -> tensor<8x2xf64>", "8x2xf64", 4, 1},
      // Rows 1 2 3 4 | 5 6 7 8 | 9 10 11 12 | 13 14 15: each needs one of the next.
      {"all but the first", "%y = nn.slice %x [1, 0] to [16, 2] by [1, 1] : tensor<16x2xf64> -> tensor<15x2xf64>", "15x2xf64", 1, 1},
      // Every device has its own.
      {"each second", "%y = nn.slice %x [1, 0] to [16, 2] by [2, 1] : tensor<16x2xf64> -> tensor<8x2xf64>", "8x2xf64", 0, 0},
      {"spread over every second", "%y = nn.pad %x low = [1, 0] interior = [1, 0] : tensor<16x2xf64> -> tensor<32x2xf64>", "32x2xf64", 0,
       0},
      // Devices 2 and 3 get 8 rows each, 4 of them from each holder.
      {"behind zeros", "%y = nn.pad %x low = [16, 0] interior = [0, 0] : tensor<16x2xf64> -> tensor<32x2xf64>", "32x2xf64", 4, 1},
      // Devices 0 and 1 get the first tensor, devices 2 and 3 the second one: 4 rows of each holder go away, of each tensor.
      {"twice", "%y = nn.concat %x, %x dim = 0 : (tensor<16x2xf64>, tensor<16x2xf64>) -> tensor<32x2xf64>", "32x2xf64", 8, 2},
      // Row 5 goes to the first device, whose shard of the result is then gathered: 1 row and 3.
      {"one row for all", "%y = nn.slice %x [5, 0] to [6, 2] by [1, 1] : tensor<16x2xf64> -> tensor<1x2xf64>", "1x2xf64", 4, 1, true, 1},
  };
  for (const Case &test : cases) {
    INFO(test.name);
    MeasuredPartition found = partitioned(*program(/*devices=*/4, "16x2xf64", test.body, test.to, test.isReplicated));
    CHECK(found.bytes == test.rows * 16);
    CHECK(found.bytes == found.estimatedBytes);
    CHECK(found.halos == test.halos);
    CHECK(found.others == test.others);
  }
}

// By hand, over 4 devices, f64: 6 rows of 5 are 2 2 2 0, 10 elements each, and 30 elements 8 8 8 6.
TEST_CASE("moved rows: a reshape moves elements between neighbours where no even split goes through", "[moved_rows]") {
  // Device 0 sends elements 8 and 9, device 1 16 to 19, device 2 24 to 29, each to the next one.
  MeasuredPartition joined = partitioned(*reshape(/*devices=*/4, {6, 5}, {30}));
  CHECK(joined.bytes == 6 * 8);
  CHECK(joined.bytes == joined.estimatedBytes);
  CHECK(joined.halos == 1);
  CHECK(joined.others == 0);
  MeasuredPartition cut = partitioned(*reshape(/*devices=*/4, {30}, {6, 5}));
  CHECK(cut.bytes == 6 * 8); // device 3 sends all that it has
  CHECK(cut.bytes == cut.estimatedBytes);
  CHECK(cut.halos == 1);
  CHECK(cut.others == 0);
  // Each device of 2 has three rows.
  MeasuredPartition even = partitioned(*reshape(/*devices=*/2, {6, 5}, {30}));
  CHECK(even.bytes == 0);
  CHECK(even.halos == 0);
}

TEST_CASE("moved rows: any reshape that joins or cuts dims on any number of devices", "[moved_rows][random]") {
  int64_t halos = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    const int64_t devices = 2 + dice.roll(4), rows = 1 + dice.roll(12), inner = 1 + dice.roll(5), last = 1 + dice.roll(3);
    const SmallVector<int64_t> apart = {rows, inner, last};
    const SmallVector<int64_t> joined =
        dice.roll(2) == 0 ? SmallVector<int64_t>{rows * inner, last} : SmallVector<int64_t>{rows * inner * last};
    const bool cuts = dice.roll(2) == 0;
    CAPTURE(seed, devices, rows, inner, last, cuts, joined.size());
    MeasuredPartition found = partitioned(*reshape(devices, cuts ? joined : apart, cuts ? apart : joined));
    CHECK(found.bytes == found.estimatedBytes);
    halos += found.halos;
  }
  CHECK(halos >= 50);
}

// Starts, steps and sizes that fit no shard, on 2 to 5 devices: the partitioned program has the elements of the single one, each once.
TEST_CASE("moved rows: any slice, pad and concat on any number of devices", "[moved_rows][random]") {
  int64_t halos = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    const int64_t rows = 1 + dice.roll(20), devices = 2 + dice.roll(4);
    const int64_t start = dice.roll(rows), limit = start + 1 + dice.roll(rows - start), step = 1 + dice.roll(3);
    const int64_t low = dice.roll(6), interior = dice.roll(3), rest = dice.roll(6), other = 1 + dice.roll(9);
    const int64_t cut = (limit - start + step - 1) / step, padded = low + (cut - 1) * (interior + 1) + 1 + rest;
    std::string body =
        llvm::formatv(R"(%c = nn.slice %x [{1}, 0] to [{2}, 3] by [{3}, 1] : tensor<{0}x3xf64> -> tensor<{4}x3xf64>
                         %p = nn.pad %c low = [{5}, 0] interior = [{6}, 0] : tensor<{4}x3xf64> -> tensor<{7}x3xf64>
                         %s = nn.slice %x [0, 0] to [{8}, 3] by [1, 1] : tensor<{0}x3xf64> -> tensor<{8}x3xf64>
                         %y = nn.concat %p, %s, %x dim = 0 : (tensor<{7}x3xf64>, tensor<{8}x3xf64>, tensor<{0}x3xf64>) -> tensor<{9}x3xf64>)",
                      rows, start, limit, step, cut, low, interior, padded, std::min(other, rows), padded + std::min(other, rows) + rows)
            .str();
    CAPTURE(seed, devices, body);
    std::string from = llvm::formatv("{0}x3xf64", rows).str(), to = llvm::formatv("{0}x3xf64", padded + std::min(other, rows) + rows).str();
    MeasuredPartition found = partitioned(*program(devices, from, body, to));
    CHECK(found.bytes == found.estimatedBytes);
    halos += found.halos;
  }
  CHECK(halos >= 300);
}

} // namespace ashlar::test::moved_rows_test

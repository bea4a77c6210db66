// SPDX-License-Identifier: Apache-2.0
//
// The expansion of nn.insert, as kernels compute it, against its reference semantics, on random shapes and types.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <catch2/catch.hpp>

namespace ashlar::test::insert_test {

using namespace mlir;
using ashlar::reference::Tensor;

TEST_CASE("insert: its expansion is the reference semantics", "[reference][insert]") {
  const uint64_t seed = testSeed();
  std::mt19937_64 random(seed);
  auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % limit); };
  for (int i = 0; i < 40; ++i) {
    for (const char *element : {"f64", "f32", "bf16", "f16", "i1", "i8", "ui16", "i32", "ui64"}) {
      const int64_t rank = 1 + below(4), dim = below(rank);
      std::string rows = "tensor<", base = "tensor<";
      int64_t size = 0, count = 0;
      for (int64_t d = 0; d < rank; ++d) {
        const int64_t ofBase = 1 + below(4), ofRows = d == dim ? below(5) : ofBase; // none, or more than the base has
        size = d == dim ? ofBase : size;
        count = d == dim ? ofRows : count;
        rows += std::to_string(ofRows) + "x";
        base += std::to_string(ofBase) + "x";
      }
      rows += element + std::string(">");
      base += element + std::string(">");
      const std::string index = below(2) == 0 ? "tensor<i64>" : "tensor<i32>";
      const std::string text = "func.func @f(%r: " + rows + ", %x: " + base + ", %i: " + index + ") -> " + base +
                               " {\n%y = nn.insert %r into %x at %i dim = " + std::to_string(dim) + " : " + rows + ", " + base + ", " +
                               index + " -> " + base + "\nreturn %y : " + base + "\n}";
      OwningOpRef<ModuleOp> module = parse(text), expanded = module->clone();
      expanded->walk([&](nn::InsertOp insert) {
        OpBuilder builder(insert);
        insert.replaceAllUsesWith(insert.buildExpansion(builder));
        insert.erase();
      });
      REQUIRE(succeeded(verify(*expanded)));
      std::vector<Tensor> inputs;
      for (RankedTensorType type : reference::globalArgumentTypes(module->lookupSymbol<func::FuncOp>("f"))) {
        inputs.push_back(reference::randomTensor(type, random, /*intLimit=*/2));
      }
      const int64_t far[] = {INT32_MIN, INT32_MAX}, at = below(8) == 0 ? far[below(2)] : below(size + count + 3) - count - 1;
      inputs.back().setInt(0, at);
      INFO("seed " << seed << ", index " << at << "\n" << text);
      CHECK(reference::maxDifference(run(*module, "f", inputs).front(), run(*expanded, "f", inputs).front()) == 0);
    }
  }
}

} // namespace ashlar::test::insert_test

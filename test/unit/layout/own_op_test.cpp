// SPDX-License-Identifier: Apache-2.0
//
// An op that no pass knows takes part in inference, redistribution and partitioning by its sharding rule alone.

#include "test/unit/layout/partitioned.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/dist/dist.h"
#include "dialects/support/op_interfaces.h"

#include <catch2/catch.hpp>

namespace ashlar::test::own_op_test {

using namespace mlir;

namespace {

// "user.rotate"(%x): rotates each row of a matrix; rows pass through, columns are needed whole.
class RotateOp : public Op<RotateOp, OpTrait::OneOperand, OpTrait::OneResult, OpTrait::ZeroRegions, OpTrait::ZeroSuccessors,
                           ShardingRuleOpInterface::Trait> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RotateOp)
  using Op::Op;
  static StringRef getOperationName() { return "user.rotate"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }

  ShardingRule getShardingRule() {
    ShardingRule rule = ShardingRule::elementwise(cast<RankedTensorType>(getOperation()->getResult(0).getType()).getShape(), 1);
    rule.factors.back().kind = FactorKind::NeedReplication;
    return rule;
  }
};

class UserDialect : public Dialect {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(UserDialect)
  explicit UserDialect(MLIRContext *context) : Dialect("user", context, TypeID::get<UserDialect>()) { addOperations<RotateOp>(); }
  static StringRef getDialectNamespace() { return "user"; }
};

} // namespace

TEST_CASE("own op: its rule is all that inference and partitioning need", "[own_op]") {
  context().getOrLoadDialect<UserDialect>();
  OwningOpRef<ModuleOp> module = parse(R"(
    dist.mesh @mesh <["dp" = 2, "tp" = 2]>
    func.func @f(%x: tensor<8x4xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>}) -> tensor<8x4xf32> {
      %y = "user.rotate"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      return %y : tensor<8x4xf32>
    })");
  REQUIRE(succeeded(partitionModule(*module)));
  int64_t gathers = 0;
  module->walk([&](dist::AllGatherOp op) {
    ++gathers;
    CHECK(dist::toAxisList(op.getAxes()) == dist::AxisList{StringAttr::get(&context(), "tp")});
  });
  CHECK(gathers == 1);
  module->walk([&](RotateOp op) { CHECK(cast<RankedTensorType>(op->getResult(0).getType()).getShape() == ArrayRef<int64_t>{4, 4}); });
}

} // namespace ashlar::test::own_op_test

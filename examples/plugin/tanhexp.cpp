// SPDX-License-Identifier: Apache-2.0
//
// A plugin of ashlarc: the op demo.tanhexp, the activation x tanh(e^x), and a pass that finds it where a model spells it out.

#include "compiler/plugin/plugin.h"
#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include "tanhexp_dialect.h.inc"
#define GET_OP_CLASSES
#include "tanhexp_ops.h.inc"

using namespace mlir;
using namespace ashlar;

#include "tanhexp_dialect.cpp.inc"
#define GET_OP_CLASSES
#include "tanhexp_ops.cpp.inc"

namespace demo {

#define GEN_PASS_DECL
#define GEN_PASS_DEF_FINDTANHEXP
#define GEN_PASS_REGISTRATION
#include "tanhexp_passes.h.inc"

//===-- The op ------------------------------------------------------------------------------------------------------------------------===//

// With y = e^x: g (tanh(y) + x y (1 - tanh(y)^2)). Beyond 40 the second term is 0, and y would overflow in a product with 0.
void TanhExpOp::buildGradients(OpBuilder &builder, ValueRange g, nn::Gradients out) {
  nn::NnBuilder b(*this, builder);
  Value x = b.wide(getInput());
  Value y = nn::ExpOp::create(b, nn::MinOp::create(b, x, b.constant(typeOf(x), 40)));
  Value t = nn::TanhOp::create(b, y);
  Value slope = b.add(t, b.mul(b.mul(x, y), b.minusFrom(1, b.mul(t, t))));
  out[0] = b.as(g[0], b.mul(b.wide(g[0]), slope));
}

Value TanhExpOp::buildScalar(ImplicitLocOpBuilder &b, ValueRange in) {
  return arith::MulFOp::create(b, in[0], math::TanhOp::create(b, math::ExpOp::create(b, in[0])));
}

nn::Tensor TanhExpOp::evaluate(ArrayRef<nn::Tensor> in) {
  return nn::mapFloats(*this, in[0], [](double x) { return x * std::tanh(std::exp(x)); });
}

static void importTanhExp(frontend::Node &node) {
  node.setResult(0, node.create<TanhExpOp>(node.input(0)));
}

//===-- The pass ----------------------------------------------------------------------------------------------------------------------===//

struct TanhExpPattern : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    auto tanh = op.getRhs().getDefiningOp<nn::TanhOp>();
    auto exp = tanh ? tanh.getInput().getDefiningOp<nn::ExpOp>() : nn::ExpOp();
    if (!exp || exp.getInput() != op.getLhs()) {
      return rewriter.notifyMatchFailure(op, "is not x * tanh(exp(x))");
    }
    auto made = rewriter.replaceOpWithNewOp<TanhExpOp>(op, op.getLhs());
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary()); // the names of the result, which rules may match
    return success();
  }
};

struct FindTanhExp : impl::FindTanhExpBase<FindTanhExp> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<TanhExpPattern>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      signalPassFailure();
    }
  }
};

//===-- The plugin --------------------------------------------------------------------------------------------------------------------===//

void DemoDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "tanhexp_ops.cpp.inc"
      >();
}

} // namespace demo

const PluginInfo *ashlarGetPluginInfo() {
  static const frontend::RegistryRow rows[] = {{"demo.TanhExp", demo::importTanhExp, frontend::Accepts::Floats}};
  static PluginInfo info;
  info.addDialects = [](DialectRegistry &registry) { registry.insert<demo::DemoDialect>(); };
  info.getImportRows = [] { return ArrayRef<frontend::RegistryRow>(rows); };
  info.addPasses = [](pipelines::PassPoint point, OpPassManager &passes) {
    if (point == pipelines::PassPoint::Model) {
      passes.addPass(demo::createFindTanhExp());
    }
  };
  info.registerPasses = demo::registerDemoPasses;
  return &info;
}

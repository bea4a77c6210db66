// SPDX-License-Identifier: Apache-2.0

#include "test/unit/frontend/onnx_gradient.h"

#include "dialects/nn/nn.h"
#include "dialects/support/op_interfaces.h"

using namespace mlir;

namespace ashlar::test {

void differentiate(func::FuncOp function) {
  Block &body = function.getBody().front();
  Operation *terminator = body.getTerminator();
  OpBuilder builder(terminator);
  Value x = body.getArgument(0), y = terminator->getOperand(0);
  llvm::DenseMap<Value, Value> gradients = {{y, body.addArgument(y.getType(), function.getLoc())}};
  SmallVector<Operation *> ops = llvm::map_to_vector(body.without_terminator(), [](Operation &op) { return &op; });
  for (Operation *op : llvm::reverse(ops)) {
    auto differentiable = dyn_cast<GradientOpInterface>(op);
    SmallVector<Value> ofResults = llvm::map_to_vector(op->getResults(), [&](Value result) { return gradients.lookup(result); });
    if (!differentiable || llvm::none_of(ofResults, [](Value gradient) { return static_cast<bool>(gradient); })) {
      continue;
    }
    SmallVector<Value> parts(op->getNumOperands());
    differentiable.buildGradients(builder, ofResults, parts);
    for (auto [operand, part] : llvm::zip_equal(op->getOperands(), parts)) {
      if (part) {
        Value &sum = gradients[operand];
        sum = sum ? nn::AddOp::create(builder, op->getLoc(), sum, part).getResult() : part;
      }
    }
  }
  Value result = gradients.lookup(x);
  if (!result) {
    result = nn::ConstantOp::create(builder, function.getLoc(), nn::splat(cast<RankedTensorType>(x.getType()), 0));
  }
  terminator->setOperands(result);
  function.setType(FunctionType::get(function.getContext(), body.getArgumentTypes(), {result.getType()}));
}

reference::Tensor gradientOf(const OnnxModel &model, std::vector<reference::Tensor> inputs, reference::Tensor g) {
  OwningOpRef<ModuleOp> module = import(model);
  func::FuncOp function = module->lookupSymbol<func::FuncOp>("forward");
  differentiate(function);
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    function.removeResultAttr(i, "nn.name"); // it is another result's
  }
  inputs.push_back(std::move(g));
  return run(*module, "forward", inputs).front();
}

std::string gradientDifference(const OnnxModel &model, const std::vector<reference::Tensor> &inputs) {
  constexpr double kStep = 1e-5;
  OwningOpRef<ModuleOp> module = import(model);
  reference::Tensor weights = run(*module, "forward", inputs).front();
  for (int64_t i = 0; i < weights.getNumElements(); ++i) {
    weights.setFloat(i, 1 + static_cast<double>(i * 7 % 5) / 4);
  }
  auto weighted = [&](int64_t element, double step) {
    std::vector<reference::Tensor> moved = inputs;
    moved[0].setFloat(element, moved[0].getFloat(element) + step);
    reference::Tensor y = run(*module, "forward", moved).front();
    double sum = 0;
    for (int64_t i = 0; i < y.getNumElements(); ++i) {
      sum += weights.getFloat(i) * y.getFloat(i);
    }
    return sum;
  };
  reference::Tensor computed = gradientOf(model, inputs, weights);
  for (int64_t i = 0; i < computed.getNumElements(); ++i) {
    double expected = (weighted(i, kStep) - weighted(i, -kStep)) / (2 * kStep);
    if (!(std::abs(computed.getFloat(i) - expected) <= 1e-6 * std::max(1.0, std::abs(expected)))) {
      return "at element " + std::to_string(i) + " the gradient is " + std::to_string(computed.getFloat(i)) + ", the difference " +
             std::to_string(expected);
    }
  }
  return "";
}

} // namespace ashlar::test

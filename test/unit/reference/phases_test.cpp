// SPDX-License-Identifier: Apache-2.0
//
// The phases of a training step.

#include "dialects/nn/phases.h"

#include "dialects/nn/nn.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <catch2/catch.hpp>

namespace ashlar::test::phases_test {

using namespace mlir;

TEST_CASE("phases: results, gradients, and what becomes of them", "[phases]") {
  // The name of each op is its phase. Shared: what two phases use belongs to the first.
  OwningOpRef<ModuleOp> module = parse(R"(
    nn.variable @w trainable : tensor<f32>
    nn.variable @v : tensor<f32>
    nn.variable @scale : tensor<f32>
    func.func @train_step(%x: tensor<f32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
      %w = nn.read @w : tensor<f32> loc("forward")
      %two = nn.constant dense<2.0> : tensor<f32> loc("forward")
      %y = nn.mul %w, %two : tensor<f32> loc("forward")
      %s = nn.read @scale : tensor<f32> loc("backward")
      %g = nn.mul %s, %two : tensor<f32> loc("backward")
      %gradient = nn.gradient %g of @w : tensor<f32> loc("backward")
      %rate = nn.constant dense<0.5> : tensor<f32> loc("update")
      %step = nn.mul %gradient, %rate : tensor<f32> loc("update")
      %next = nn.sub %w, %step : tensor<f32> loc("update")
      nn.write @w, %next : tensor<f32> loc("update")
      %v = nn.read @v : tensor<f32> loc("update")
      nn.write @v, %v : tensor<f32> loc("update")
      return %y : tensor<f32> loc("forward")
    }
  )");
  Block &body = module->lookupSymbol<func::FuncOp>("train_step").front();
  nn::Phases phases(body);
  for (Operation &op : body) {
    StringRef expected = nn::getPath(op.getLoc());
    INFO(expected.str() << " " << op.getName().getStringRef().str());
    nn::Phase phase = phases.of(&op);
    CHECK(expected == (phase == nn::Phase::Forward ? "forward" : phase == nn::Phase::Backward ? "backward" : "update"));
  }
}

TEST_CASE("phases: what an iteration reads of the one before has its phase", "[phases]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    nn.variable @w trainable : tensor<f32>
    func.func @train_step(%x: tensor<f32>) -> tensor<f32> attributes {nn.program = #nn.program<train_step>} {
      %w = nn.read @w : tensor<f32> loc("backward")
      %h = nn.repeat_carry %w loop 0 number 0 count 3 : tensor<f32> loc("backward")
      %p = nn.mul %h, %w : tensor<f32> loc("backward")
      %last = nn.repeat_next %p of %h : tensor<f32> loc("backward")
      %all = nn.repeat_stack %h loop 0 count 3 : tensor<f32> -> tensor<3xf32> loc("backward")
      %g = nn.reduce sum %all dims = [0] : tensor<3xf32> -> tensor<f32> loc("backward")
      %gradient = nn.gradient %g of @w : tensor<f32> loc("backward")
      return %x : tensor<f32> loc("forward")
    }
  )");
  Block &body = module->lookupSymbol<func::FuncOp>("train_step").front();
  nn::Phases phases(body);
  for (Operation &op : body) {
    INFO(op.getName().getStringRef().str());
    CHECK(phases.of(&op) == (nn::getPath(op.getLoc()) == "forward" ? nn::Phase::Forward : nn::Phase::Backward));
  }
}

TEST_CASE("phases: without gradients what is written beside the results is the update", "[phases]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    nn.variable @w : tensor<f32>
    func.func @init() attributes {nn.program = #nn.program<init>} {
      %one = nn.constant dense<1.0> : tensor<f32>
      nn.write @w, %one : tensor<f32>
      return
    }
    func.func @forward() -> tensor<f32> attributes {nn.program = #nn.program<run>} {
      %w = nn.read @w : tensor<f32>
      return %w : tensor<f32>
    }
  )");
  auto phaseOfFirst = [&](StringRef name) {
    Block &body = module->lookupSymbol<func::FuncOp>(name).front();
    return nn::Phases(body).of(&body.front());
  };
  CHECK(phaseOfFirst("init") == nn::Phase::Update);
  CHECK(phaseOfFirst("forward") == nn::Phase::Forward);
}

} // namespace ashlar::test::phases_test

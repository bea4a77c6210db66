// SPDX-License-Identifier: Apache-2.0
//
// The body of a repeat is imported once, with the builder in it.

#include "compiler/frontend/ops/recurrent/repeat.h"

#include "compiler/frontend/emit.h"

#include "dialects/nn/repeat/repeats.h"

using namespace mlir;

namespace ashlar::frontend {

StepResults importStep(Node &node, const onnx::GraphProto &body, const std::string &prefix, Names names, int firstOutput,
                       ArrayRef<Value> carried) {
  std::vector<onnx::NodeProto> nodes = openGraph(body, prefix, node.getPath(), names);
  node.spend(kStepsOfNode * static_cast<int64_t>(nodes.size()));
  node.importBody(std::move(nodes));
  StepResults results;
  for (int i = firstOutput; i < body.output_size(); ++i) {
    const std::string &output = body.output(i).name(), &name = names[output];
    if (!node.isDefined(name) || node.isSequence(name)) {
      node.fail("output \"" + output + "\" of its body is " + (node.isDefined(name) ? "a sequence" : "not computed") +
                "; it has to be a tensor");
    }
    Value value = node.valueOf(name);
    const auto state = static_cast<size_t>(i - firstOutput);
    if (state < carried.size() && value.getType() != carried[state].getType()) {
      node.fail("state " + Twine(state) + " is " + describeTensor(typeOf(carried[state])) + " but its body returns " +
                describeTensor(typeOf(value)) + "; a state keeps its type and shape");
    }
    (state < carried.size() ? results.carried : results.stacked).push_back(value);
  }
  return results;
}

StepResults repeat(const Node &node, int64_t count, bool reversed, ArrayRef<Value> carried, ArrayRef<Value> sliced,
                   function_ref<StepResults(const StepValues &)> body) {
  GraphValues::Body inside{std::make_unique<Block>(), count, reversed, SmallVector<Value>(sliced)};
  SmallVector<Value> arguments;
  for (Value value : carried) {
    arguments.push_back(inside.block->addArgument(value.getType(), value.getLoc()));
  }
  for (Value value : sliced) {
    assert(shapeOf(value)[0] == count && "a sliced tensor has a row for each step");
    arguments.push_back(inside.block->addArgument(nn::rowType(typeOf(value)), value.getLoc()));
  }
  Node::BodyCounts counts(node, *inside.block, carried, sliced);
  SmallVector<Value> yielded;
  {
    GraphValues::BodyScope scope(node.getValues(), inside);
    StepResults next = body({ArrayRef(arguments).take_front(carried.size()), ArrayRef(arguments).drop_front(carried.size())});
    assert(llvm::equal(TypeRange(ValueRange(next.carried)), TypeRange(ValueRange(carried))) && "carried values keep their types");
    yielded = llvm::to_vector(llvm::concat<Value>(next.carried, next.stacked));
    node.followCounts();
    for (Value row : next.stacked) {
      RankedTensorType stacked = nn::stackType(typeOf(row), count);
      node.checkSize(stacked.getShape(), stacked.getElementType());
    }
  }
  nn::RepeatOp op =
      nn::createRepeat(node.builder(), node.location(), count, reversed, carried, inside.sliced, std::move(inside.block), yielded);
  counts.handOn(op.getYielded(), op.getResults());
  return {SmallVector<Value>(op.getCarriedResults()), SmallVector<Value>(op.getStackedResults())};
}

} // namespace ashlar::frontend

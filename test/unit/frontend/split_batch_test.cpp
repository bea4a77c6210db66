// SPDX-License-Identifier: Apache-2.0
//
// ONNX ops that find elements of each sample by number: devices that split the batch, unevenly too, compute them and their gradients
// without a collective, and as one device does.

#include "test/unit/frontend/onnx_gradient.h"
#include "test/unit/layout/partitioned.h"

#include "compiler/reference/equivalence.h"

#include "dialects/dist/dist.h"
#include "dialects/nn/programs.h"

#include "mlir/AsmParser/AsmParser.h"

namespace ashlar::test::split_batch_test {

using namespace mlir;
using onnx::TensorProto;

namespace {

constexpr int64_t kDevices = 2, kBatch = 3;

struct Node {
  std::string op;
  int64_t opset;
  std::vector<Attribute> attributes;
  std::vector<int64_t> data;
  std::vector<int64_t> indices;      // computed; none for the op that MaxPool gives them
  std::vector<int64_t> updates = {}; // before the indices of TensorScatter
  size_t batch = 0;                  // the dim of the data
};

OnnxModel modelOf(const Node &node) {
  auto dims = [](const std::vector<int64_t> &shape) { return std::vector<Dim>(shape.begin(), shape.end()); };
  OnnxModel model(node.opset);
  model.input("x", dims(node.data));
  if (node.op == "MaxUnpool") {
    return model.node("MaxPool", {"x"}, {"p", "i"}, node.attributes).node(node.op, {"p", "i"}, {"y"}, node.attributes).output("y");
  }
  model.input("i", dims(node.indices), node.op == "GridSample" ? TensorProto::FLOAT : TensorProto::INT64);
  if (!node.updates.empty()) {
    model.input("u", dims(node.updates));
  }
  bool updatesFirst = node.op == "TensorScatter";
  std::vector<std::string> inputs = node.updates.empty() ? std::vector<std::string>{"x", "i"}
                                    : updatesFirst       ? std::vector<std::string>{"x", "u", "i"}
                                                         : std::vector<std::string>{"x", "i", "u"};
  return model.node(node.op, inputs, {"y"}, node.attributes).output("y");
}

void checkSplit(ModuleOp module, size_t batch) {
  func::FuncOp function = nn::findProgram(module, nn::ProgramRole::Run);
  pipelines::attachMachine(module, pipelines::Variant{"default", {{"dp", kDevices}}, {}}, job::Job());
  std::string layout = "[";
  for (int64_t d = 0; d < cast<RankedTensorType>(function.getArgumentTypes()[0]).getRank(); ++d) {
    layout += std::string(d == 0 ? "" : ", ") + (d == static_cast<int64_t>(batch) ? "{\"dp\"}" : "{}");
  }
  function.setArgAttr(0, dist::kLayoutAttr, parseAttribute("#dist.layout<" + layout + "]>", &context()));
  OwningOpRef<ModuleOp> after = module.clone();
  REQUIRE(succeeded(partitionModule(*after)));
  func::FuncOp local = nn::findProgram(*after, nn::ProgramRole::Run);
  CHECK(cast<RankedTensorType>(local.getArgumentTypes()[0]).getDimSize(batch) == 2);
  local.walk([](dist::CollectiveOpInterface op) { FAIL_CHECK(op->getName().getStringRef().str()); });
  reference::EquivalenceOptions options;
  options.ranksAfter = kDevices;
  options.intLimit = 6; // some of them out of range
  FailureOr<double> difference = reference::compareModules(module, *after, options);
  REQUIRE(succeeded(difference));
  CHECK(*difference < 1e-6);
}

} // namespace

TEST_CASE("onnx ops by numbers of each sample keep a split batch", "[frontend]") {
  auto ints = [](const char *name, std::vector<int64_t> values) { return Attribute{name, std::move(values)}; };
  Attribute one{"axis", int64_t(1)}, last{"axis", int64_t(-1)}, add{"reduction", std::string("add")}, max{"reduction", std::string("max")};
  const std::vector<Node> nodes = {
      {"GatherElements", 13, {one}, {kBatch, 5, 4}, {kBatch, 2, 4}},
      {"GatherElements", 13, {last}, {kBatch, 5, 4}, {kBatch, 5, 7}},
      {"GatherElements", 13, {one}, {kBatch, 5, 4}, {kBatch, 6, 2}},
      {"GatherND", 13, {{"batch_dims", int64_t(1)}}, {kBatch, 5, 4}, {kBatch, 6, 1}},
      {"GatherND", 13, {{"batch_dims", int64_t(1)}}, {kBatch, 5, 4}, {kBatch, 2}},
      {"GridSample", 20, {}, {kBatch, 2, 4, 5}, {kBatch, 3, 2, 2}},
      {"GridSample", 20, {{"mode", std::string("cubic")}, {"padding_mode", std::string("border")}}, {kBatch, 2, 4, 5}, {kBatch, 3, 2, 2}},
      {"MaxUnpool", 22, {ints("kernel_shape", {2, 2}), ints("strides", {2, 2})}, {kBatch, 2, 4, 4}, {}},
      {"MaxUnpool", 22, {ints("kernel_shape", {3}), ints("strides", {1})}, {kBatch, 2, 8}, {}},
      {"ReverseSequence", 10, {}, {5, kBatch, 2}, {kBatch}, {}, /*batch=*/1},
      {"ReverseSequence", 10, {{"batch_axis", int64_t(0)}, {"time_axis", int64_t(1)}}, {kBatch, 5, 2}, {kBatch}},
      {"ScatterElements", 18, {one}, {kBatch, 5, 4}, {kBatch, 2, 4}, {kBatch, 2, 4}},
      {"ScatterElements", 18, {last, add}, {kBatch, 5, 4}, {kBatch, 3, 6}, {kBatch, 3, 6}},
      {"ScatterElements", 18, {one, max}, {kBatch, 5, 4}, {kBatch, 2, 3}, {kBatch, 2, 3}},
      {"TensorScatter", 24, {}, {kBatch, 5, 2}, {kBatch}, {kBatch, 3, 2}},
      {"TensorScatter", 24, {{"mode", std::string("circular")}, last}, {kBatch, 2, 5}, {kBatch}, {kBatch, 2, 3}},
  };
  for (const auto &[i, node] : llvm::enumerate(nodes)) {
    INFO("node " << i << ": " << node.op);
    OwningOpRef<ModuleOp> forward = import(modelOf(node)), backward = forward->clone();
    checkSplit(*forward, node.batch);
    func::FuncOp function = nn::findProgram(*backward, nn::ProgramRole::Run);
    differentiate(function);
    function.removeResultAttr(0, nn::kNameAttr); // it is another result's
    checkSplit(*backward, node.batch);
  }
}

} // namespace ashlar::test::split_batch_test

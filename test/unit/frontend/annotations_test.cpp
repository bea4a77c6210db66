// SPDX-License-Identifier: Apache-2.0
//
// Multi-device annotations: layouts to lists of devices and back, what they become in a module, and what is refused.

#include "compiler/frontend/annotations/annotations.h"

#include "compiler/frontend/import_error.h"
#include "compiler/frontend/onnx_file.h"
#include "test/unit/frontend/onnx_model.h"

#include "mlir/AsmParser/AsmParser.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

namespace ashlar::test::annotations_test {

using frontend::DeviceMesh;
using frontend::ImportOptions;
using multi_device::ShardingSpec;

namespace {

DeviceMesh meshOf(std::vector<std::pair<std::string, int64_t>> axes, std::vector<int64_t> ranks = {}) {
  context().loadDialect<dist::DistDialect>();
  llvm::SmallVector<mlir::StringAttr> names;
  llvm::SmallVector<int64_t> sizes;
  for (const auto &[name, size] : axes) {
    names.push_back(mlir::StringAttr::get(&context(), name));
    sizes.push_back(size);
  }
  auto mesh = dist::MeshAttr::get(&context(), names, sizes);
  for (int64_t device = ranks.size(); device < mesh.numDevices(); ++device) {
    ranks.push_back(device);
  }
  return {mesh, ranks};
}

dist::Layout layoutOf(const std::string &text) {
  return mlir::cast<dist::LayoutAttr>(mlir::parseAttribute("#dist.layout<" + text + ">", &context())).getLayout();
}

ShardingSpec parseSpec(const std::string &text) {
  ShardingSpec spec;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

std::string print(const ShardingSpec &spec) {
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(spec, &text);
  return text;
}

std::string specError(const std::string &text, const DeviceMesh &mesh) {
  try {
    return "no error: " + frontend::toLayoutText(parseSpec(text), {8, 6}, mesh);
  } catch (const frontend::ImportError &error) {
    return error.what();
  }
}

// y = x w; relu(y), annotated with these texts.
OnnxModel annotated(const std::string &product, const std::string &relu = "") {
  OnnxModel model = OnnxModel().input("x", {8, 4}).initializer("w", onnx::TensorProto::FLOAT, {4, 6}, std::vector<double>(24, 1));
  model.node("MatMul", {"x", "w"}, {"h"}, {}, "/fc").node("Relu", {"h"}, {"y"}, {}, "act").output("y");
  multi_device::Configuration configuration;
  configuration.set_name("four");
  configuration.set_num_devices(4);
  model.proto.mutable_unknown_fields()->AddLengthDelimited(26, configuration.SerializeAsString());
  const std::string texts[] = {product, relu};
  for (int i = 0; i < 2; ++i) {
    multi_device::NodeConfiguration node;
    REQUIRE(google::protobuf::TextFormat::ParseFromString(texts[i], &node));
    node.set_configuration_id("four");
    model.proto.mutable_graph()->mutable_node(i)->mutable_unknown_fields()->AddLengthDelimited(10, node.SerializeAsString());
  }
  return model;
}

ImportOptions reading(const std::string &configuration = "four") {
  ImportOptions options;
  options.annotations = {configuration, meshOf({{"dp", 2}, {"tp", 2}})};
  return options;
}

} // namespace

TEST_CASE("annotations: a layout as lists of devices", "[frontend][annotations]") {
  DeviceMesh mesh = meshOf({{"dp", 2}, {"tp", 2}});
  auto spec = [&](const std::string &layout, const DeviceMesh &on) { return print(toShardingSpec("t", {8, 6}, layoutOf(layout), on)); };
  CHECK(spec("[{}, {}]", mesh) ==
        "tensor_name: \"t\" device: -1 index_to_device_group_map { key: -1 value: 0 value: 1 value: 2 value: 3 } ");
  CHECK(spec(R"([{"tp"}, {}])", mesh) == "tensor_name: \"t\" device: -1 device: -2 index_to_device_group_map { key: -1 value: 0 value: 2 } "
                                         "index_to_device_group_map { key: -2 "
                                         "value: 1 value: 3 } sharded_dim { axis: 0 simple_sharding { dim_value: 8 num_shards: 2 } } ");
  CHECK(spec(R"([{"tp"}, {"dp"}])", mesh) ==
        "tensor_name: \"t\" device: 0 device: 2 device: 1 device: 3 sharded_dim { axis: 0 simple_sharding { dim_value: 8 num_shards: 2 } } "
        "sharded_dim { axis: 1 simple_sharding { dim_value: 6 num_shards: 2 } } ");
  // Devices are ranks: the mesh may have them in any order.
  CHECK_THAT(spec(R"([{"dp", "tp"}, {}])", meshOf({{"dp", 2}, {"tp", 2}}, {3, 1, 2, 0})),
             contains("device: 3 device: 1 device: 2 device: 0"));
}

TEST_CASE("annotations: every layout comes back", "[frontend][annotations]") {
  for (const DeviceMesh &mesh :
       {meshOf({{"x", 2}, {"y", 2}, {"z", 3}}), meshOf({{"x", 6}, {"y", 2}, {"z", 1}}), meshOf({{"x", 1}, {"y", 1}, {"z", 1}}),
        meshOf({{"x", 2}, {"y", 2}, {"z", 2}}, {7, 2, 5, 0, 1, 3, 6, 4})}) {
    for (const char *layout : {"[{}, {}]", "[{x}, {}]", "[{}, {y}]", "[{x, y}, {}]", "[{y, x}, {z}]", "[{z}, {y, x}]", "[{z, x, y}, {}]"}) {
      // Axes of size 1 split nothing, and are not told of.
      dist::Layout wanted;
      std::string quoted;
      for (const char *c = layout; *c; ++c) {
        bool isAxis = *c >= 'x' && *c <= 'z';
        quoted += isAxis ? std::string("\"") + *c + "\"" : std::string(1, *c);
      }
      wanted = dist::withoutUnitAxes(mesh.mesh, layoutOf(quoted));
      std::string text = toLayoutText(frontend::toShardingSpec("t", {24, 12}, wanted, mesh), {24, 12}, mesh);
      std::string expected = wanted.toString();
      expected.erase(std::remove(expected.begin(), expected.end(), '"'), expected.end());
      CHECK(text == expected);
    }
  }
}

TEST_CASE("annotations: shards of parts of axes", "[frontend][annotations]") {
  DeviceMesh mesh = meshOf({{"dp", 2}, {"tp", 4}});
  auto text = [&](const std::string &spec) { return frontend::toLayoutText(parseSpec(spec), {8, 6}, mesh); };
  const std::string two = "sharded_dim { axis: 0 simple_sharding { num_shards: 2 } }";
  CHECK(text("device: [8, 9] index_to_device_group_map { key: 8 value: [0, 1, 4, 5] } index_to_device_group_map { key: 9 value: [2, 3, 6, "
             "7] }" +
             two) == "[{tp:(1)2}, {}]");
  CHECK(text("device: [8, 9] index_to_device_group_map { key: 8 value: [0, 2, 4, 6] } index_to_device_group_map { key: 9 value: [1, 3, 5, "
             "7] }" +
             two) == "[{tp:(2)2}, {}]");
  // Both parts, minor one first.
  CHECK(
      frontend::toLayoutText(parseSpec("device: [0, 2, 1, 3] sharded_dim { axis: -1 simple_sharding { dim_param: \"n\" num_shards: 4 } }"),
                             {8, 6}, meshOf({{"tp", 4}})) == "[{}, {tp:(2)2, tp:(1)2}]");
}

TEST_CASE("annotations: forms that are not supported are refused by name", "[frontend][annotations]") {
  DeviceMesh mesh = meshOf({{"x", 4}});
  auto dim = [](const std::string &axis, const std::string &simple) { return "sharded_dim { axis: " + axis + " " + simple + " } "; };
  const std::string two = "simple_sharding { num_shards: 2 }", four = "simple_sharding { num_shards: 4 }";
  CHECK(specError("device: [0, 1, 2, 3]" + dim("2", four), mesh) == "its sharded axis 2 is not in [-2, 2)");
  CHECK(specError("device: [0, 1, 2, 3]" + dim("0", two) + dim("-2", two), mesh) == "axis 0 is sharded twice");
  CHECK_THAT(specError("device: [0, 1, 2, 3]" + dim("0", two + two), mesh),
             contains("axis 0 has 2 simple shardings, of which one is supported"));
  CHECK_THAT(specError("device: [0, 1, 2, 3]" + dim("0", ""), mesh), contains("axis 0 has 0 simple shardings"));
  CHECK(specError("device: 0 " + dim("0", "simple_sharding {}"), mesh) == "axis 0 has 0 shards");
  CHECK_THAT(specError("device: [0, 1, 2, 3]" + dim("0", "simple_sharding { dim_value: 4 num_shards: 4 }"), mesh),
             contains("axis 0 is sharded as one of size 4 but has size 8"));
  CHECK(specError("device: [0, 1]" + dim("0", "simple_sharding { num_shards: 9 }"), mesh) == "it has more shards than the 4 devices");
  CHECK(specError("device: [0, 1]" + dim("0", four), mesh) == "it lists 2 devices for 4 shards");
  CHECK(specError("device: [0, 1, 2, 4]" + dim("0", four), mesh) == "it names device 4 but there are 4, from 0");
  CHECK(specError("device: [0, 1, 1, 3]" + dim("0", four), mesh) == "device 1 holds two shards, which is not supported");
  CHECK_THAT(specError("device: [0, 1]" + dim("0", two), mesh), contains("device 2 holds none of it, which is not supported"));
  CHECK_THAT(specError("device: [0, 1, 3, 2]" + dim("0", four), mesh),
             contains("lie on the devices in an order that no axes of the mesh have"));
}

TEST_CASE("annotations become rules of the module", "[frontend][annotations]") {
  const std::string w = "sharding_spec { tensor_name: \"w\" device: [-1, -2] index_to_device_group_map { key: -1 value: [0, 2] } "
                        "index_to_device_group_map { key: -2 value: [1, 3] } sharded_dim { axis: 1 simple_sharding { num_shards: 2 } } }";
  const std::string h = "sharding_spec { tensor_name: \"h\" device: [0, 1, 2, 3] sharded_dim { axis: 0 simple_sharding { num_shards: 2 } } "
                        "sharded_dim { axis: 1 simple_sharding { num_shards: 2 } } }";
  std::string text = test::print(*import(annotated(w + h, h), reading()));
  CHECK_THAT(text, contains("#dist.rule<match = \"h\", layout = \"[{dp}, {tp}]\", priority = 1, origin = "));
  CHECK_THAT(text, contains("#dist.rule<match = \"w\", layout = \"[{}, {tp}]\", priority = 1, origin = "));
  CHECK_THAT(text, contains("node \\22fc\\22"));
  // Without being asked for they are no rules.
  CHECK_THAT(test::print(*import(annotated(w), {})), !contains("dist.rule"));

  CHECK(importError(annotated(w), reading("two")) == "model.onnx: has no device configuration \"two\"; there are \"four\"");
  ImportOptions larger = reading();
  larger.annotations->mesh = meshOf({{"dp", 8}});
  CHECK_THAT(importError(annotated(w), larger), contains("is for 4 devices but the mesh has 8"));
  CHECK(importError(annotated(w, "pipeline_stage: 1"), reading()) == "model.onnx: node \"act\": pipeline_stage 1 is not implemented");
  CHECK(importError(annotated(h, w), reading()) ==
        "model.onnx: node \"act\": is annotated with a sharding of \"w\", which is none of its tensors");
  const std::string whole = "sharding_spec { tensor_name: \"h\" device: -1 index_to_device_group_map { key: -1 value: [0, 1, 2, 3] } }";
  CHECK(importError(annotated(h, whole), reading()) == "model.onnx: node \"act\": its sharding of \"h\": it is [{}, {}] here but [{dp}, "
                                                       "{tp}] at node \"fc\"; a tensor has one layout, changes "
                                                       "between nodes are inferred");
  CHECK_THAT(importError(annotated("sharding_spec { tensor_name: \"h\" device: [0, 1] }"), reading()),
             contains("node \"fc\": its sharding of \"h\": it lists 2 devices for 1 shards"));
  OnnxModel broken = annotated(w);
  broken.proto.mutable_graph()->mutable_node(0)->mutable_unknown_fields()->AddVarint(10, 1);
  CHECK_THAT(importError(broken, reading()), contains("node \"fc\": its multi-device annotation is no message of ONNX"));
}

TEST_CASE("annotations are written at each node, over those that were there", "[frontend][annotations]") {
  TemporaryFile file(annotated("pipeline_stage: 3").proto.SerializeAsString());
  llvm::StringMap<frontend::PlannedTensor> plan;
  plan["x"] = {{8, 4}, layoutOf(R"([{"dp"}, {}])")};
  plan["h"] = {{8, 6}, layoutOf(R"([{"dp"}, {"tp"}])")};
  auto bytes = frontend::annotateModel(file.getPath(), file.getPath(), plan, meshOf({{"dp", 2}, {"tp", 2}}));
  REQUIRE(static_cast<bool>(bytes));
  TemporaryFile written(*bytes);
  std::unique_ptr<onnx::ModelProto> model = frontend::readModelFile(written.getPath());
  CHECK(model->ir_version() == 11);
  CHECK(frontend::deviceConfigurations(*model) == std::vector<std::string>{"ashlar"});
  const auto &fields = model->graph().node(0).unknown_fields();
  REQUIRE(fields.field_count() == 1);
  multi_device::NodeConfiguration node;
  REQUIRE(node.ParseFromString(fields.field(0).length_delimited()));
  CHECK(!node.has_pipeline_stage());
  REQUIRE(node.sharding_spec_size() == 2);
  CHECK(node.sharding_spec(0).tensor_name() == "x");
  CHECK(node.sharding_spec(1).tensor_name() == "h");

  OnnxModel outside = annotated("");
  onnx::TensorProto *tensor = outside.proto.mutable_graph()->mutable_initializer(0);
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  TemporaryFile external(outside.proto.SerializeAsString());
  auto moved = frontend::annotateModel(external.getPath(), "elsewhere/model.onnx", plan, meshOf({{"dp", 4}}));
  REQUIRE(!static_cast<bool>(moved));
  CHECK_THAT(llvm::toString(moved.takeError()), contains("initializer \"w\" has its data in a file next to the model"));
}

} // namespace ashlar::test::annotations_test

// SPDX-License-Identifier: Apache-2.0
//
// Collectives in models of mode HYBRID: what they become, and what is refused.

#include "test/unit/frontend/onnx_model.h"

#include "dialects/dist/dist.h"

#include <catch2/catch.hpp>

namespace ashlar::test::collective_test {

using frontend::ImportOptions;
using Strings = std::vector<std::string>;

namespace {

// Mode HYBRID on dp=2, tp=4: "x" is cut in two in dim 0, "w" in four in dim 1.
ImportOptions hybrid() {
  context().loadDialect<dist::DistDialect>();
  ImportOptions options;
  auto axis = [](const char *name) { return mlir::StringAttr::get(&context(), name); };
  options.local =
      frontend::LocalModel{dist::MeshAttr::get(&context(), {axis("dp"), axis("tp")}, {2, 4}), [](llvm::StringRef name, int64_t rank) {
                             std::vector<int64_t> pieces(rank, 1);
                             if (name == "x") {
                               pieces[0] = 2;
                             } else if (name == "w") {
                               pieces[1] = 4;
                             }
                             return pieces;
                           }};
  return options;
}

OnnxModel oneNode(const std::string &op, std::vector<Attribute> attributes) {
  return OnnxModel().input("x", {8, 4}).node("ai.ashlar.dist." + op, {"x"}, {"y"}, std::move(attributes), "n").output("y");
}

std::string imported(const std::string &op, std::vector<Attribute> attributes) {
  return print(*import(oneNode(op, std::move(attributes)), hybrid()));
}

} // namespace

TEST_CASE("collectives of a model are those of dist, on the sizes of one device", "[frontend][hybrid]") {
  Strings tp = {"tp"}, both = {"dp", "tp"};
  std::string text = imported("AllReduce", {{"axes", both}});
  CHECK_THAT(text, contains(R"(dist.mesh @mesh <["dp" = 2, "tp" = 4]>)"));
  CHECK_THAT(text, contains(R"(dist.all_reduce sum %arg0 over ["dp", "tp"])"));
  CHECK_THAT(text, contains(R"(nn.outputs = ["y"])"));
  CHECK_THAT(imported("AllReduce", {{"axes", tp}, {"reduction", std::string("max")}}), contains("dist.all_reduce max"));
  CHECK_THAT(imported("AllGather", {{"axes", tp}, {"dim", int64_t(-1)}}), contains("tensor<8x4xf32> -> tensor<8x16xf32>"));
  text = imported("ReduceScatter", {{"axes", both}, {"dim", int64_t(0)}, {"reduction", std::string("min")}});
  CHECK_THAT(text, contains("dist.reduce_scatter min %arg0 dim = 0"));
  CHECK_THAT(text, contains("tensor<8x4xf32> -> tensor<1x4xf32>"));
  text = imported("AllToAll", {{"axes", tp}, {"split_dim", int64_t(0)}, {"concat_dim", int64_t(1)}});
  CHECK_THAT(text, contains("split_dim = 0 concat_dim = 1"));
  CHECK_THAT(text, contains("tensor<8x4xf32> -> tensor<2x16xf32>"));
  CHECK_THAT(imported("Broadcast", {{"axes", tp}, {"root", int64_t(3)}}), contains("dist.broadcast %arg0 root = 3 over [\"tp\"]"));
}

TEST_CASE("sizes of a device follow from those of the job and the pieces", "[frontend][hybrid]") {
  job::Init rule;
  rule.set_match("w");
  rule.mutable_kaiming_uniform()->set_a(0);
  ImportOptions options = hybrid();
  options.globalBatch = 6;
  options.init = {rule};
  OnnxModel model = OnnxModel().input("x", {std::string("batch"), 6}).input("w", {5, 6}).output("y");
  model.node("Gemm", {"x", "w"}, {"y"}, {{"transB", int64_t(1)}});
  std::string text = print(*import(model, options));
  CHECK_THAT(text, contains("%arg0: tensor<3x6xf32>"));
  // sqrt(6 / 24): the fan-in of the whole parameter.
  CHECK_THAT(text, contains("@w trainable : tensor<5x6xf32> = #nn.uniform<-5.000000e-01 : f64, 5.000000e-01 : f64>"));
  options.globalBatch = 7;
  CHECK(importError(model, options) == "model.onnx: input \"x\": global_batch 7 is not divisible by the 2 pieces that its rule cuts dim 0 "
                                       "into, and mode HYBRID pads nothing");
}

TEST_CASE("collectives that do not fit are refused with the node's name", "[frontend][hybrid]") {
  Strings tp = {"tp"};
  ImportOptions other;
  other.mode = "DATA_PARALLEL";
  CHECK(importError(oneNode("AllReduce", {{"axes", tp}}), other) ==
        "model.onnx: node \"n\" (AllReduce, opset 17): is a collective, which a model may hold only in mode HYBRID, but the job has mode "
        "DATA_PARALLEL; set mode: HYBRID in the job, or take the node out of the model");
  auto error = [](const std::string &op, std::vector<Attribute> attributes) {
    return importError(oneNode(op, std::move(attributes)), hybrid());
  };
  CHECK_THAT(error("AllReduce", {}), contains("attribute \"axes\" names no mesh axis; there are \"dp\", \"tp\""));
  CHECK_THAT(error("AllReduce", {{"axes", Strings{"pp"}}}),
             contains("names \"pp\", which the mesh does not have; there are \"dp\", \"tp\""));
  CHECK_THAT(error("AllReduce", {{"axes", Strings{"tp", "tp"}}}), contains("names \"tp\" twice"));
  CHECK_THAT(error("AllReduce", {{"axes", tp}, {"reduction", std::string("mean")}}), contains("\"mean\"; one of sum, max, min"));
  CHECK_THAT(error("AllReduce", {{"axes", tp}, {"dim", int64_t(0)}}), contains("attribute \"dim\" is not supported"));
  CHECK_THAT(error("AllGather", {{"axes", tp}}), contains("attribute \"dim\" is missing"));
  CHECK_THAT(error("AllGather", {{"axes", tp}, {"dim", int64_t(2)}}), contains("axis 2 is not in [-2, 2)"));
  CHECK_THAT(error("ReduceScatter", {{"axes", Strings{"dp", "tp"}}, {"dim", int64_t(1)}}),
             contains("dim 1 of size 4 is not divisible by the 8 devices that share it"));
  CHECK_THAT(error("AllToAll", {{"axes", tp}, {"split_dim", int64_t(1)}, {"concat_dim", int64_t(-1)}}), contains("both name dim 1"));
  CHECK_THAT(error("Broadcast", {{"axes", tp}, {"root", int64_t(4)}}), contains("\"root\" is 4 but a group has 4 devices, from 0"));
  CHECK_THAT(error("Barrier", {{"axes", tp}}), contains("1 op is not supported: ai.ashlar.dist.Barrier (node \"n\", opset 17)"));
  OnnxModel newer = oneNode("AllReduce", {{"axes", tp}});
  onnx::OperatorSetIdProto *opset = newer.proto.add_opset_import();
  opset->set_domain("ai.ashlar.dist");
  opset->set_version(2);
  CHECK_THAT(importError(newer, hybrid()), contains("domain ai.ashlar.dist has version 2 but only version 1 is supported"));
}

} // namespace ashlar::test::collective_test

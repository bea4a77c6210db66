// SPDX-License-Identifier: Apache-2.0
//
// The facts of the layout report, as text and as JSON.

#include "compiler/report/explain.h"
#include "compiler/report/report_json.h"
#include "compiler/report/sentences.h"
#include "compiler/report/units.h"
#include "dialects/dist/reasons.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

#include <catch2/catch.hpp>

namespace ashlar::test::report_test {

using namespace mlir;

namespace {

// Two ops disagree on a layout that a rule gave; on this mesh messages cost time, so that the report has times and a runner-up.
constexpr const char *kProgram = R"mlir(
  dist.mesh @mesh <["dp" = 4, "tp" = 2]> {costs = #dist.costs<latency_ns = [1000, 1000], bytes_per_us = [1000, 1000]>}
  nn.variable @w trainable : tensor<16x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>, dist.origin = [#dist.origin<source = "rule \22w\22 (j:3)">]}
  nn.variable @w.momentum state_of @w : tensor<16x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
  nn.variable @ashlar.step internal : tensor<i64>
  func.func @train_step(%x: tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, nn.name = "x"})
      -> (tensor<f32> {dist.layout = #dist.layout<[]>, nn.name = "loss"}) attributes {nn.program = #nn.program<train_step>} {
    %w = nn.read @w : tensor<16x8xf32>
    %y = nn.matmul %x, %w transpose_b : tensor<8x8xf32>, tensor<16x8xf32> -> tensor<8x16xf32> loc("fc")
    %s = nn.reduce sum %y dims = [0, 1] : tensor<8x16xf32> -> tensor<f32> loc("sum")
    %g = nn.matmul %y, %x transpose_a : tensor<8x16xf32>, tensor<8x8xf32> -> tensor<16x8xf32> loc("fc")
    %dw = nn.gradient %g of @w : tensor<16x8xf32> loc("w")
    %n = nn.sub %w, %dw : tensor<16x8xf32> loc("w")
    nn.write @w, %n : tensor<16x8xf32>
    return %s : tensor<f32>
  }
  func.func @eval_step(%x: tensor<8x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>}) -> (tensor<8xf32> {dist.layout = #dist.layout<[{}]>}) attributes {nn.program = #nn.program<eval_step>} {
    %s = nn.reduce sum %x dims = [0] : tensor<8x8xf32> -> tensor<8xf32>
    return %s : tensor<8xf32>
  }
)mlir";

report::LayoutReport makeReport(const std::string &text) {
  OwningOpRef<ModuleOp> module = parse(text);
  REQUIRE(succeeded(partitionModule(*module)));
  return report::makeLayoutReport(*module, "net");
}

dist::EndAttr makeEnd(const std::string &parts) {
  return cast<dist::EndAttr>(parseAttribute("#dist.end<" + parts + ">", &context()));
}

} // namespace

TEST_CASE("report: facts of collectives", "[report]") {
  report::LayoutReport report = makeReport(kProgram);
  CHECK(report.hasCosts);
  REQUIRE(report.mains[0].name == "train_step");
  REQUIRE(report.mains[0].collectives.size() == 2);
  // Both sums are of terms over dp; that of the loss also over tp, which splits its columns.
  const report::CollectiveFact &loss = report.mains[0].collectives[0], &gradient = report.mains[0].collectives[1];
  CHECK((loss.kind == "all_reduce" && loss.reduction == "sum" && loss.groupSize == 8 && loss.bytes == 7));
  CHECK((gradient.axes == std::vector<std::string>{"dp"} && gradient.operand == "8x8xf32" && gradient.bytes == 2 * 256 * 3 / 4));
  CHECK(gradient.cause == "gradient of w");
  REQUIRE(gradient.reasons.size() == 1);
  const report::ReasonFact &reason = gradient.reasons.front();
  CHECK(reason.producer == "fc (nn.matmul)");
  CHECK(reason.consumers == std::vector<std::string>{"gradient of w"});
  CHECK((reason.tensor == "16x8xf32" && reason.from == "[{tp}, {}], partial = sum {dp}" && reason.to == "[{tp}, {}]"));
  REQUIRE(!reason.origins.empty());
  CHECK(reason.origins.front().find("rule \"w\" (j:3)") == 0);
  CHECK((reason.plan.bytes == gradient.bytes && reason.plan.timePs == gradient.timePs));
  REQUIRE(reason.runnerUp);
  CHECK((reason.runnerUp->steps != reason.plan.steps && reason.runnerUp->timePs >= reason.plan.timePs));
}

TEST_CASE("report: totals are the sums of the collectives, of other programs too", "[report]") {
  report::LayoutReport report = makeReport(kProgram);
  int64_t bytes = 0, timePs = 0;
  for (const report::CollectiveFact &fact : report.mains[0].collectives) {
    bytes += fact.bytes;
    timePs += fact.timePs;
  }
  CHECK((report.mains[0].sum.count == 2 && report.mains[0].sum.bytes == bytes && report.mains[0].sum.timePs == timePs));
  REQUIRE(report.others.size() == 1);
  CHECK((report.others[0].name == "eval_step" && report.others[0].sum.count == 1 && report.others[0].collectives.empty()));
}

TEST_CASE("report: a collective of a body counts as often as it runs", "[report]") {
  report::LayoutReport report = makeReport(R"mlir(
    dist.mesh @mesh <["tp" = 2]>
    func.func @run(%first: tensor<4x8xf32>, %w: tensor<8x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>})
        -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{}, {"tp"}]>}) attributes {nn.program = #nn.program<run>} {
      %last = nn.repeat 3 carried(%h = %first) captured(%v = %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
        %p = nn.matmul %h, %v : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
        nn.yield %p : tensor<4x8xf32>
      }
      return %last : tensor<4x8xf32>
    })mlir");
  const report::ProgramFact &program = report.mains.front();
  REQUIRE(program.collectives.size() == 1);
  const report::CollectiveFact &gather = program.collectives.front();
  CHECK((gather.kind == "all_gather" && gather.runs == 3 && gather.bytes == 4 * 4 * 4));
  CHECK((program.sum.count == 3 && program.sum.bytes == 3 * gather.bytes));
  CHECK(report::explainText(report).find("3 times, in a loop") != std::string::npos);
}

TEST_CASE("report: variables with their pieces, the compiler's own left out", "[report]") {
  report::LayoutReport report = makeReport(kProgram);
  REQUIRE(report.variables.size() == 2);
  const report::VariableFact &w = report.variables[0];
  CHECK((w.name == "w" && w.isTrainable && w.global == "16x8xf32" && w.layout == "[{tp}, {}]" && w.local == "8x8xf32" && w.bytes == 256));
  CHECK(w.origin == "rule \"w\" (j:3)");
  CHECK((!report.variables[1].isTrainable && report.variables[1].origin.empty()));
}

TEST_CASE("report: the JSON holds the facts and is well formed", "[report]") {
  report::LayoutReport report = makeReport(kProgram);
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(report::reportJson(report));
  REQUIRE(static_cast<bool>(value));
  const llvm::json::Object &object = *value->getAsObject();
  CHECK(object.getString("model") == llvm::StringRef("net"));
  REQUIRE(object.getArray("collectives")->size() == 2);
  const llvm::json::Object &gradient = *(*object.getArray("collectives"))[1].getAsObject();
  CHECK(gradient.getInteger("bytes") == report.mains[0].collectives[1].bytes);
  CHECK(gradient.getNumber("time_ns") == static_cast<double>(report.mains[0].collectives[1].timePs) / 1000);
  const llvm::json::Object &reason = *(*gradient.getArray("reasons"))[0].getAsObject();
  CHECK(reason.getString("producer") == llvm::StringRef("fc (nn.matmul)"));
  CHECK(reason.getObject("runner_up")->getString("steps") == llvm::StringRef(report.mains[0].collectives[1].reasons[0].runnerUp->steps));
  CHECK((*object.getArray("variables"))[0].getAsObject()->getString("origin") == llvm::StringRef("rule \"w\" (j:3)"));
}

TEST_CASE("report: the text has times only where links have costs", "[report]") {
  std::string text = report::explainText(makeReport(kProgram));
  CHECK(text.find("predicted") != std::string::npos);
  CHECK(text.find("instead of") != std::string::npos);
  std::string plain = kProgram;
  plain.erase(plain.find("{costs"), plain.find("\n", plain.find("{costs")) - plain.find("{costs"));
  CHECK(report::explainText(makeReport(plain)).find("predicted") == std::string::npos);
}

TEST_CASE("report: one device has parameters and sends nothing", "[report]") {
  OwningOpRef<ModuleOp> module = parse(R"(
    nn.variable @w trainable : tensor<2xf32>
    func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> attributes {nn.program = #nn.program<run>} { return %x : tensor<2xf32> }
  )");
  report::LayoutReport report = report::makeLayoutReport(*module, "net");
  CHECK((report.mesh.empty() && report.mains[0].sum.count == 0));
  CHECK((report.variables[0].global == "2xf32" && report.variables[0].layout == "[{}]" && report.variables[0].bytes == 8));
}

TEST_CASE("reasons: a location keeps its path, reasons are merged once each", "[report]") {
  MLIRContext &shared = context();
  Location plain = NameLoc::get(StringAttr::get(&shared, "path"));
  dist::LayoutAttr whole = dist::LayoutAttr::get(&shared, dist::Layout::replicated(1));
  RankedTensorType type = RankedTensorType::get({4}, Float32Type::get(&shared));
  auto rule = dist::OriginAttr::get(&shared, StringAttr::get(&shared, "rule"), {}, {}, {});
  auto p = makeEnd("kind = op, name = \"p\", op = \"nn.add\"");
  dist::Reason a{p, {makeEnd("kind = parameter, name = \"a\"")}, {ArrayAttr::get(&shared, {rule})}, whole, whole, type};
  dist::Reason b{p, {makeEnd("kind = input, number = 2")}, {}, whole, whole, type};
  Location first = dist::withReasons(plain, a), both = dist::withReasons(plain, {a, b});
  CHECK(dist::getReasons(plain).empty());
  REQUIRE(dist::getReasons(first).size() == 1);
  CHECK((dist::getReasons(first)[0].consumers == a.consumers && dist::getReasons(first)[0].origins == a.origins));
  CHECK(dist::getReasons(dist::mergeReasons(first, both)).size() == 2);
  CHECK(dist::mergeReasons(first, plain) == first);
  CHECK(dist::withReasons(first, {}) == plain);
}

TEST_CASE("sentences: each end and origin has one", "[report]") {
  auto end = [](const std::string &parts) { return report::endText(makeEnd(parts)); };
  CHECK(end("kind = op, name = \"fc1\", op = \"nn.matmul\"") == "fc1 (nn.matmul)");
  CHECK(end("kind = op, op = \"nn.matmul\"") == "nn.matmul");
  CHECK(end("kind = parameter, name = \"w\"") == "parameter w");
  CHECK(end("kind = state, name = \"m\"") == "state m");
  CHECK(end("kind = parameter_update, name = \"w\"") == "update of parameter w");
  CHECK(end("kind = state_update, name = \"m\"") == "update of state m");
  CHECK(end("kind = gradient, name = \"w\"") == "gradient of w");
  CHECK(end("kind = input, name = \"x\", number = 1") == "input x");
  CHECK(end("kind = input, number = 1") == "argument 1");
  CHECK(end("kind = output, name = \"y\"") == "output y");
  CHECK(end("kind = output") == "result 0");
  auto origins = [](const std::string &text) { return cast<ArrayAttr>(parseAttribute("[" + text + "]", &context())); };
  CHECK(report::originText({}) == "");
  CHECK(report::originText(origins("")) == "");
  CHECK(report::originText(origins("#dist.origin<source = \"r\">")) == "r");
  ArrayAttr both = origins("#dist.origin<source = \"r\", axis = \"dp\", op = \"nn.add\">, "
                           "#dist.origin<source = \"s\", axis = \"tp\", path = \"fc\", op = \"nn.matmul\">");
  CHECK(report::originText(both) == "dp: r, along nn.add; tp: s, along fc (nn.matmul)");
  CHECK(dist::sourcesOf({both, origins("#dist.origin<source = \"s\">")}) == std::vector<std::string>{"r", "s"});
}

TEST_CASE("sentences: a cause is told shortly, and in every form of the program", "[report]") {
  auto text = [](const std::string &cause) {
    std::string told;
    OwningOpRef<ModuleOp> module = parse(R"(
      dist.mesh @mesh <["dp" = 2]>
      func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = dist.all_reduce sum %x over ["dp"] )" +
                                         (cause.empty() ? "" : "{cause = [" + cause + "]}") + R"( : tensor<4xf32> loc("path")
        return %0 : tensor<4xf32>
      }
      exec.variant @default arena 128 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 64 : i64,
                                                  devices_per_process = 1 : i64, lower_bound_bytes = 128 : i64} {
        exec.program @f inputs [] outputs [] {
          exec.collective all_reduce <arena, 0, memref<4xf32>> to <arena, 0, memref<4xf32>> over [0] reduction sum split 0 concat 0 )" +
                                         (cause.empty() ? "" : "cause [" + cause + "]") + R"( loc("path")
        }
      }
    )");
    module->walk([&](dist::CollectiveOpInterface op) { told = report::causeText(op); });
    module->walk([&](exec::CollectiveOp op) { CHECK(report::causeText(op) == told); });
    return told;
  };
  CHECK(text("") == "path");
  CHECK(text("#dist.end<kind = op, name = \"fc1\">") == "fc1");
  CHECK(text("#dist.end<kind = op, op = \"nn.matmul\">") == "nn.matmul");
  CHECK(text("#dist.end<kind = state_update, name = \"m\">") == "next value of m");
  CHECK(text("#dist.end<kind = output, name = \"y\", number = 1>") == "result 1 of f");
  CHECK(text("#dist.end<kind = gradient, name = \"a\">, #dist.end<kind = parameter_update, name = \"b\">") ==
        "gradient of a, next value of b");
}

TEST_CASE("units: the largest unit of which there is one", "[report]") {
  CHECK(report::bytesText(999) == "999 B");
  CHECK(report::bytesText(1000) == "1.0 KB");
  CHECK(report::bytesText(1234567, 2) == "1.23 MB");
  // Two sizes that are compared look unlike when they are.
  CHECK(report::comparedBytes(2999900, 3000100) == std::pair<std::string, std::string>("2.9999 MB", "3.0001 MB"));
  CHECK(report::comparedBytes(4000000000000, 4000000000001) ==
        std::pair<std::string, std::string>("4.000000000000 TB", "4.000000000001 TB"));
  CHECK(report::comparedBytes(3000000, 3000000) == std::pair<std::string, std::string>("3.0 MB", "3.0 MB"));
  CHECK(report::comparedBytes(999, 3000000, 2) == std::pair<std::string, std::string>("999 B", "3.00 MB"));
  CHECK(report::timeText(500) == "0 ns"); // picoseconds
  CHECK(report::timeText(999000) == "999 ns");
  CHECK(report::timeText(1500000) == "1.5 us");
  CHECK((report::counted(1, "rank") == "1 rank" && report::counted(0, "rank") == "0 ranks"));
}

} // namespace ashlar::test::report_test

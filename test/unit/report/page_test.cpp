// SPDX-License-Identifier: Apache-2.0
//
// The facts of the plan page, and the page as text. The viewer is tested in a browser: test/e2e/plan_page.sh.

#include "compiler/report/layout_report.h"
#include "compiler/report/page/measured_run.h"
#include "compiler/report/page/page_json.h"
#include "compiler/report/page/plan_page.h"
#include "test/unit/layout/partitioned.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/JSON.h"

#include <catch2/catch.hpp>

namespace ashlar::test::page_test {

using namespace mlir;

namespace {

// Three layers, whose products are sums of terms over tp; the last one ends in another layout.
constexpr const char *kLayers = R"mlir(
  dist.mesh @mesh <["dp" = 2, "tp" = 2]>
  nn.variable @h.0.w trainable : tensor<8x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
  nn.variable @h.1.w trainable : tensor<8x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
  nn.variable @h.2.w trainable : tensor<8x8xf32> {dist.layout = #dist.layout<[{"tp"}, {}]>}
  func.func @forward(%x: tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {"tp"}]>, nn.name = "x"})
      -> (tensor<4x8xf32> {dist.layout = #dist.layout<[{"dp"}, {}]>, nn.name = "y"}) attributes {nn.program = #nn.program<run>} {
    %w0 = nn.read @h.0.w : tensor<8x8xf32>
    %a = nn.matmul %x, %w0 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("h.0/MatMul")
    %b = nn.relu %a : tensor<4x8xf32> loc("h.0/Relu")
    %w1 = nn.read @h.1.w : tensor<8x8xf32>
    %c = nn.matmul %b, %w1 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("h.1/MatMul")
    %d = nn.relu %c : tensor<4x8xf32> loc("h.1/Relu")
    %w2 = nn.read @h.2.w : tensor<8x8xf32>
    %e = nn.matmul %d, %w2 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("h.2/MatMul")
    %f = nn.relu %e : tensor<4x8xf32> loc("h.2/Relu")
    return %f : tensor<4x8xf32>
  }
)mlir";

report::ModelGraph graphOf(ModuleOp module) {
  const pipelines::Variant variant = variantOf(module);
  PassManager passes(module.getContext());
  pipelines::addInferencePasses(passes, variant);
  REQUIRE(succeeded(passes.run(module)));
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager inserts(module.getContext());
  pipelines::addRedistributionPasses(inserts, variant);
  REQUIRE(succeeded(inserts.run(*copy)));
  return report::makeModelGraph(*copy);
}

// Returns the JSON that `write` writes into an object.
llvm::json::Object jsonOf(llvm::function_ref<void(llvm::json::OStream &)> write) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream out(stream);
  out.object([&] { write(out); });
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  REQUIRE(static_cast<bool>(value));
  return *value->getAsObject();
}

std::string errorOf(llvm::Expected<std::string> result) {
  return result ? "" : llvm::toString(result.takeError());
}

} // namespace

TEST_CASE("module tree: parts of paths, each module once", "[report][page]") {
  report::ModuleTree tree;
  const unsigned weight = tree.add("h.0.attn.weight"), product = tree.add("/h.0/attn/MatMul");
  CHECK(tree.modules()[weight].parent == tree.modules()[product].parent);
  CHECK((tree.add("h.0/attn/MatMul") == product && tree.add("") == 0 && tree.add("..//") == 0));
  CHECK((tree.modules().size() == 6 && tree.modules()[tree.add("h")].parent == 0 && tree.modules()[product].name == "MatMul"));
}

TEST_CASE("model graph: ops, layouts on edges, and the redistribution of a sum", "[report][page]") {
  OwningOpRef<ModuleOp> module = parse(kLayers);
  const report::ModelGraph graph = graphOf(*module);
  REQUIRE(graph.ops.size() == 10); // the input, and a read and two ops of each layer
  const std::vector<std::string> &kinds = graph.kinds.texts(), &layouts = graph.layouts.texts();
  CHECK((kinds[graph.ops[0].kind] == "input" && kinds[graph.ops[1].kind] == "nn.read" && kinds[graph.ops[2].kind] == "nn.matmul"));
  CHECK((graph.types.texts()[graph.ops[2].type] == "4x8xf32" && graph.ops[2].phase == nn::Phase::Forward));
  // The product contracts tp, so relu takes a sum of terms from it, scattered over tp; x and the product agree.
  auto edge = [&](unsigned from, unsigned to) {
    auto found = llvm::find_if(graph.edges, [&](const report::GraphEdge &each) { return each.from == from && each.to == to; });
    REQUIRE(found != graph.edges.end());
    return *found;
  };
  const report::GraphEdge first = edge(0, 2), sum = edge(2, 3), last = edge(8, 9);
  CHECK((layouts[first.made] == "[{dp}, {tp}]" && first.made == first.wanted && !first.redistribution));
  CHECK((layouts[sum.made] == "[{dp}, {}], partial = sum {tp}" && layouts[sum.wanted] == "[{dp}, {tp}]" && sum.redistribution));
  CHECK((last.made == sum.made && layouts[last.wanted] == "[{dp}, {}]" && last.redistribution));
}

TEST_CASE("model graph: modules are equal where their ops, layouts and edges are", "[report][page]") {
  OwningOpRef<ModuleOp> module = parse(kLayers);
  report::ModelGraph graph = graphOf(*module);
  const unsigned first = graph.modules.add("h.0"), second = graph.modules.add("h.1"), third = graph.modules.add("h.2");
  std::vector<unsigned> equal = report::findEqualModules(graph);
  CHECK((equal[first] == first && equal[second] == first && equal[third] == third));
  auto relu = llvm::find_if(graph.edges, [](const report::GraphEdge &edge) { return edge.to == 6; }); // of the second one
  REQUIRE(relu != graph.edges.end());
  relu->redistribution.reset();
  CHECK(report::findEqualModules(graph)[second] == second);
}

TEST_CASE("page: a redistribution names its collective, by way of its reason", "[report][page]") {
  OwningOpRef<ModuleOp> module = parse(kLayers);
  report::ModelGraph graph = graphOf(*module);
  const pipelines::Variant variant = variantOf(*module);
  PassManager dist(module->getContext());
  pipelines::addDistPasses(dist, variant);
  REQUIRE(succeeded(dist.run(*module)));
  const report::LayoutReport report = report::makeLayoutReport(*module, "net", std::move(graph));
  REQUIRE(report.mains[0].collectives.size() == 3); // the sums
  std::vector<std::string> keys;
  for (const report::CollectiveFact &fact : report.mains[0].collectives) {
    REQUIRE(fact.keys.size() == 1);
    keys.push_back(fact.keys.front());
    CHECK(llvm::is_contained(report.graph.redistributions, fact.keys.front()));
    REQUIRE(fact.modules.size() == 2); // product and relu
  }
  CHECK(keys[0] != keys[1]);
  CHECK(report.graph.modules.modules()[report.mains[0].collectives[1].modules[0]].name == "MatMul");
}

// A parameter at 64, temporaries from 4096 on; a repeat with a temporary of its own, a value that it reads and rows that it writes.
constexpr const char *kTables = R"mlir(
  exec.variant @default arena 8192 attributes {axis_names = ["dp"], axis_sizes = array<i64: 2>, coordinates_offset = 0 : i64,
                                               devices_per_process = 1 : i64, lower_bound_bytes = 8192 : i64} {
    exec.tensor @w variable <arena, 64, memref<16xf32>> global [16] splits [array<i64>] {persistent}
    exec.program @train_step inputs [] outputs [] {
      exec.kernel @fill [#exec.buffer<arena, 64, memref<16xf32>>, #exec.buffer<arena, 4096, memref<16xf32>>] reads [0] writes [1] extent 16 grain 16
                  {exec.span_ps = array<i64: 0, 1000>} loc("h.0/fill")
      exec.collective all_reduce <arena, 4096, memref<16xf32>> to <arena, 4160, memref<16xf32>> over [0] reduction sum split 0 concat 0 token 1
                      {exec.span_ps = array<i64: 1000, 9000>} loc("h.0/sum")
      exec.repeat 4 attributes {exec.span_ps = array<i64: 1000, 5000>} {
        exec.kernel @fill [#exec.buffer<arena, 4096, memref<16xf32>>, #exec.buffer<arena, 4224, memref<8xf32>>] reads [0] writes [1] extent 8 grain 8
        exec.kernel @fill [#exec.buffer<arena, 4224, memref<8xf32>>, #exec.buffer<arena, 4352, memref<4xf32>, strides = [16]>] reads [0] writes [1] extent 4 grain 4
      } loc("h.1/loop")
      exec.wait 1 {exec.span_ps = array<i64: 5000, 9000>}
      exec.gemm [#exec.buffer<arena, 4160, memref<4x4xf32>>, #exec.buffer<arena, 4352, memref<4x4xf32>>, #exec.buffer<arena, 4480, memref<4x4xf32>>]
                batch 1 m 4 n 4 k 4 epilogue none {exec.span_ps = array<i64: 9000, 9500>} loc("h.1/MatMul")
      exec.copy <arena, 4480, memref<16xf32>> to <arena, 64, memref<16xf32>>
    }
  }
  func.func private @fill(memref<16xf32>, memref<16xf32>, index, index)
)mlir";

TEST_CASE("instructions: modules, spans, and the bytes of temporaries alive", "[report][page]") {
  OwningOpRef<ModuleOp> module = parse(kTables);
  auto variant = *module->getOps<exec::VariantOp>().begin();
  report::ModuleTree modules;
  const report::ProgramInstructions found = report::readInstructions(variant, *variant.getOps<exec::ProgramOp>().begin(), modules,
                                                                     [](exec::CollectiveOp) { return std::optional<size_t>(7); });
  REQUIRE(found.list.size() == 6);
  const char *kinds[] = {"kernel", "collective", "repeat", "wait", "product", "copy"};
  for (auto [fact, kind] : llvm::zip_equal(found.list, kinds)) {
    CHECK(fact.kind == kind);
  }
  CHECK((modules.modules()[found.list[4].module].name == "MatMul" && found.list[3].module == 0));
  CHECK((found.list[1].isStarted && found.list[1].collective == size_t(7) && !found.list[2].collective));
  CHECK((found.list[2].span.beginPs == 1000 && found.list[2].span.endPs == 5000));
  CHECK((found.list[5].span.beginPs == 9500 && found.list[5].span.endPs == 9500)); // it has none: behind the one before it
  // The parameter does not count. In the repeat: its operand, which it reads, the sum, its own 32 bytes, and 4 rows of 16.
  CHECK(found.live.bytes == std::vector<uint64_t>{64, 128, 64 + 64 + 32 + 64, 128, 192, 64});
  CHECK((found.live.peak == 2 && found.live.values.size() == 3 && found.live.values.front().bytes == 96 &&
         found.live.values.front().writer == 2));
}

TEST_CASE("page: columns hold numbers, and times to the picosecond", "[report][page]") {
  const llvm::json::Object object = jsonOf([](llvm::json::OStream &out) {
    report::writeColumn(out, "numbers", {3, -1});
    report::writeTimes(out, "times", {1500, 2000, 7, 120, -2500});
    report::writeTextColumn(out, "texts", std::vector<std::string>{"a\"b", "</script>", "\xff"});
  });
  auto numbers = [&](StringRef name) {
    return llvm::map_to_vector(*object.getArray(name), [](const llvm::json::Value &each) { return *each.getAsNumber(); });
  };
  CHECK(numbers("numbers") == SmallVector<double>{3, -1});
  CHECK(numbers("times") == SmallVector<double>{1.5, 2, 0.007, 0.12, -2.5});
  CHECK((*(*object.getArray("texts"))[0].getAsString() == "a\"b" && *(*object.getArray("texts"))[2].getAsString() == "\xef\xbf\xbd"));
}

TEST_CASE("page: the data is deflated, names end no element", "[report][page]") {
  const std::string name = "</title></script><img src=x onerror=alert(1)>", json = "{\"model\":\"" + name + "<!--\"}";
  const std::string page = report::planPage(name, {{"report", json}});
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("{{") == std::string::npos);
  CHECK(StringRef(page).starts_with("<!DOCTYPE html>"));
  const std::string plain = report::planPage("net", {});
  for (StringRef scheme : {"http://", "https://", "src=", "@import", "url("}) { // no network: the namespace of SVG, and marks of a drawing
    CHECK(StringRef(plain).count(scheme) == (scheme == "http://" || scheme == "url(" ? 1 : 0));
  }
  const StringRef begin = "id=\"report\">";
  const StringRef rest = StringRef(page).split(begin).second;
  std::vector<char> deflated;
  REQUIRE(!llvm::errorToBool(llvm::decodeBase64(rest.take_until([](char letter) { return letter == '<'; }), deflated)));
  llvm::SmallVector<uint8_t> text;
  ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(deflated.data()), deflated.size());
  REQUIRE(!llvm::errorToBool(llvm::compression::zlib::decompress(bytes, text, json.size())));
  CHECK(llvm::toStringRef(text) == json);
}

TEST_CASE("page: another report is a report", "[report][page]") {
  const std::string head =
      R"({"model": "m", "mesh": [{"axis": "dp", "size": 2}], "programs": [], "step": {"step_ns": 1.5}, "collectives": [],)";
  auto refusal = [&](const std::string &text) {
    const std::string error = errorOf(report::compactReport(text, "a.json"));
    StringRef fact = error;
    CHECK((fact.consume_front("--compare a.json: ") && fact.consume_back("; name a file that --report of this version wrote")));
    return fact.str();
  };
  const std::string whole = head + R"("variables": [{"name": "w", "layout": "[{}]", "bytes": 8}], "more": null})";
  llvm::Expected<std::string> text = report::compactReport(whole, "a.json");
  REQUIRE(static_cast<bool>(text));
  CHECK((text->find(' ') == std::string::npos && text->find("1.5") != std::string::npos));
  CHECK(!refusal("{").empty());
  CHECK(refusal("[]") == "it has no object");
  CHECK(refusal(R"({"model": "m"})") == "it has no list at collectives");
  CHECK(refusal(head + R"("variables": [{"name": "w", "layout": "[{}]"}]})") == "it has no number at variables[0].bytes");
  CHECK(refusal(head + R"("variables": [{"name": 1, "layout": "[{}]", "bytes": 8}]})") == "it has no string at variables[0].name");
  CHECK(refusal(head + R"("variables": [], "memory": {"bytes": 8, "parts": {}}})") == "it has no list at memory.parts");
  CHECK(refusal(head + R"("variables": [], "pipeline": null})") == "it has no object at pipeline");
}

TEST_CASE("page: the tracks of a trace, its steps on average", "[report][page]") {
  const char *trace = R"({"traceEvents": [
    {"ph": "X", "pid": 1, "tid": 100001, "ts": 0.5, "dur": 2.25, "cat": "step", "name": "step 3", "args": {}},
    {"ph": "X", "pid": 1, "tid": 100001, "ts": 3, "dur": 1.75, "cat": "step", "name": "step 4", "args": {}},
    {"ph": "X", "pid": 1, "tid": 100003, "ts": 0.5, "dur": 0.125, "cat": "kernel", "name": "</b>", "args": {"step": 3, "micro_batch": 1}},
    {"ph": "s", "pid": 1, "tid": 100003, "ts": 1, "id": 1, "cat": "message", "name": "message"},
    {"ph": "M", "pid": 1, "tid": 100000, "name": "process_name", "args": {"name": "rank 0"}},
    {"ph": "M", "pid": 1, "tid": 100001, "name": "thread_name", "args": {"name": "steps"}},
    {"ph": "M", "pid": 1, "tid": 100007, "name": "thread_name", "args": {"name": "empty"}}],
    "otherData": {"plan": "model  net\nmesh   dp=2\npipeline  2 stages; a step takes 5 ms\n  drawn\n", "first_step": 3, "steps": 2, "ranks": [{}, {}]}})";
  llvm::Expected<std::string> text = report::measuredRun(trace, "t.json",
                                                         "model  net\nmesh   dp=2\npipeline  2 stages; a step takes 6 ms\n  other\n"
                                                         "timeline  computes 4 ms\ndeterminism  --deterministic: why\n");
  REQUIRE(static_cast<bool>(text));
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(*text);
  REQUIRE(static_cast<bool>(value));
  const llvm::json::Object &run = *value->getAsObject();
  CHECK((run.getNumber("step_ns") == 2000.0 && run.getInteger("first_step") == 3 && run.getInteger("steps") == 2 &&
         run.getInteger("ranks") == 2));
  REQUIRE(run.getArray("tracks")->size() == 2); // without the empty one
  const llvm::json::Object &steps = *(*run.getArray("tracks"))[0].getAsObject(), &kernels = *(*run.getArray("tracks"))[1].getAsObject();
  CHECK((steps.getString("process") == "rank 0" && steps.getString("name") == "steps" &&
         steps.getArray("step")->front().getAsInteger() == -1));
  CHECK((*steps.getArray("begin_ns"))[1].getAsNumber() == 3000.0);
  CHECK((kernels.getArray("end_ns")->front().getAsNumber() == 625.0 && kernels.getArray("micro_batch")->front().getAsInteger() == 1));
  const auto title = static_cast<size_t>(*kernels.getArray("title")->front().getAsInteger());
  CHECK((*run.getArray("names"))[title].getAsString() == "</b>");
}

TEST_CASE("page: a trace of another plan, or none, is refused", "[report][page]") {
  const StringRef remedy = "; name a file that --trace of the executable wrote";
  auto refusal = [&](const char *text) {
    const std::string error = errorOf(report::measuredRun(text, "t.json", "model  net\nmesh   dp=4, 4 devices\n"));
    CHECK((StringRef(error).starts_with("--trace t.json: ") && StringRef(error).ends_with(remedy)));
    return error;
  };
  CHECK(refusal("[]").find("no traceEvents") != std::string::npos);
  CHECK(refusal("{").size() > remedy.size());
  CHECK(refusal(R"({"traceEvents": [], "otherData": {"model": "net"}})").find("no otherData with a plan") != std::string::npos);
  CHECK(refusal(R"({"traceEvents": [], "otherData": {"plan": "model  net\nmesh   dp=2\n"}})")
            .find("another plan, with \"mesh dp=2\", and this plan has \"mesh dp=4, 4 devices\"") != std::string::npos);
  CHECK(refusal(R"({"traceEvents": [], "otherData": {"plan": "model  net\nmesh   dp=4, 4 devices\nstage        0 of 2\n"}})")
            .find("another plan, with \"stage 0 of 2\", and this plan has \"\"") != std::string::npos);
  CHECK(refusal(
            R"({"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1}],
                "otherData": {"plan": "model  net\nmesh   dp=4, 4 devices\n"}})")
            .find("event 0 has no") != std::string::npos);
}

} // namespace ashlar::test::page_test

// SPDX-License-Identifier: Apache-2.0
//
// Rules lead to the layouts that they are for, all of them are needed, and few are.

#include "passes/search/rules_of_layouts.h"

#include "dialects/dist/plain_text.h"
#include "dialects/nn/programs.h"
#include "passes/layout/inference/named_tensors.h"
#include "passes/layout/inference/propagate_layouts.h"
#include "passes/search/passes.h"
#include "test/unit/layout/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

namespace ashlar::test::rules_of_layouts_test {

using namespace mlir;

namespace {

using namespace search;

std::vector<std::string> textsOf(const RulesOfLayouts &found) {
  std::vector<std::string> texts;
  for (const LayoutRule &rule : found.rules) {
    texts.push_back(rule.match + " " + dist::layoutText(rule.layout.getLayout()));
  }
  return texts;
}

RulesOfLayouts rulesOf(ModuleOp module, ModuleOp given) {
  FailureOr<RulesOfLayouts> found = findRules(module, given);
  REQUIRE(succeeded(found));
  return *found;
}

// Returns the layouts of all tensors with names that a module's given layouts lead to, one a line.
std::string namedLayouts(ModuleOp given) {
  OwningOpRef<ModuleOp> placed = given.clone();
  REQUIRE(succeeded(layout::propagateLayouts(*placed, /*splitVariables=*/true)));
  layout::NamedTensors named(*placed);
  std::string text;
  for (StringRef name : named.names().list({NameKind::Op, NameKind::Tensor})) {
    for (const layout::TensorRef &tensor : named.findTensors(name)) {
      dist::LayoutAttr layout;
      switch (tensor.kind) {
      case layout::TensorRef::Variable:
        layout = tensor.op->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
        break;
      case layout::TensorRef::Argument:
        layout = cast<func::FuncOp>(tensor.op).getArgAttrOfType<dist::LayoutAttr>(tensor.index, dist::kLayoutAttr);
        break;
      case layout::TensorRef::FunctionResult:
        layout = cast<func::FuncOp>(tensor.op).getResultAttrOfType<dist::LayoutAttr>(tensor.index, dist::kLayoutAttr);
        break;
      default:
        layout = dist::findLayout(tensor.op->getResult(tensor.index));
      }
      text += name.str() + " " + dist::layoutText(layout.getLayout()) + "\n";
    }
  }
  return text;
}

// A wide MLP: the first weight is split by columns, the second by rows. `outputs`: attributes of what lies between.
OwningOpRef<ModuleOp> wideMlp(bool isGiven, const std::string &outputs) {
  auto give = [&](const std::string &layout) { return isGiven ? " {dist.layout = #dist.layout<" + layout + ">}" : std::string(); };
  return parse("dist.mesh @mesh <[\"dp\" = 2, \"tp\" = 4]>\n"
               "nn.variable @fc1.weight trainable : tensor<64x512xf32>" +
               give("[{}, {\"tp\"} ]") +
               "\n"
               "nn.variable @fc2.weight trainable : tensor<512x64xf32>" +
               give("[{\"tp\"}, {} ]") +
               "\n"
               "func.func @forward(%x: tensor<32x64xf32> {nn.name = \"x\"" +
               (isGiven ? ", dist.layout = #dist.layout<[{\"dp\"}, {} ]>" : "") +
               "}) -> (tensor<32x64xf32> {nn.name = \"y\"}) attributes {nn.program = #nn.program<run>} {\n"
               "  %w1 = nn.read @fc1.weight : tensor<64x512xf32>\n"
               "  %h = nn.matmul %x, %w1 : tensor<32x64xf32>, tensor<64x512xf32> -> tensor<32x512xf32>\n"
               "  %r = nn.relu %h" +
               outputs +
               " : tensor<32x512xf32>\n"
               "  %w2 = nn.read @fc2.weight : tensor<512x64xf32>\n"
               "  %y = nn.matmul %r, %w2 : tensor<32x512xf32>, tensor<512x64xf32> -> tensor<32x64xf32>\n"
               "  return %y : tensor<32x64xf32>\n"
               "}\n");
}

} // namespace

TEST_CASE("rules: columns, then rows: the weights follow from one of them", "[search]") {
  RulesOfLayouts found = rulesOf(*wideMlp(false, ""), *wideMlp(true, ""));
  CHECK(textsOf(found) == std::vector<std::string>{"fc1.weight [{}, {tp}]", "x [{dp}, {}]"});
  CHECK(found.isShortest);
  CHECK(found.numOthers == 0);
}

TEST_CASE("rules: one about what lies between says it all", "[search]") {
  const std::string outputs = " {nn.outputs = [\"hidden\"]}";
  RulesOfLayouts found = rulesOf(*wideMlp(false, outputs), *wideMlp(true, outputs));
  CHECK(textsOf(found) == std::vector<std::string>{"hidden [{dp}, {tp}]"});
  CHECK(found.isShortest);
}

TEST_CASE("rules: none where inference leads there by itself, and none about what is given", "[search]") {
  RulesOfLayouts found = rulesOf(*wideMlp(true, ""), *wideMlp(true, ""));
  CHECK(found.rules.empty());
  CHECK(found.isShortest);
}

TEST_CASE("rules: how a bias is kept comes last where what is computed with it is laid out otherwise", "[search]") {
  auto biased = [](bool isGiven) {
    auto give = [&](const std::string &name, const std::string &layout) {
      return isGiven ? "dist." + name + " = " + layout : std::string();
    };
    return parse("dist.mesh @mesh <[\"dp\" = 2]>\n"
                 "nn.variable @bias trainable : tensor<64xf32> {" +
                 give("layout", "#dist.layout<[{\"dp\"}]>") +
                 "}\n"
                 "func.func @forward(%x: tensor<32x64xf32> {nn.name = \"x\"" +
                 (isGiven ? ", " : "") + give("layout", "#dist.layout<[{\"dp\"}, {}]>") +
                 "}) -> (tensor<32x64xf32> {nn.name = \"y\"}) attributes {nn.program = #nn.program<run>} {\n"
                 "  %b = nn.read @bias : tensor<64xf32>\n"
                 "  %r = nn.broadcast %b dims = [1] {" +
                 give("layouts", "[#dist.layout<[{\"dp\"}, {}]>]") +
                 "} : tensor<64xf32> -> tensor<32x64xf32>\n"
                 "  %y = nn.add %x, %r : tensor<32x64xf32>\n"
                 "  return %y : tensor<32x64xf32>\n"
                 "}\n");
  };
  RulesOfLayouts found = rulesOf(*biased(false), *biased(true));
  CHECK(textsOf(found) == std::vector<std::string>{"bias [{dp}]", "x [{dp}, {}]"});
  CHECK(found.rules.front().priority == 1);
  CHECK(found.rules.back().priority == 0);
  CHECK(found.numOthers == 0);
  CHECK(namedLayouts(*giveRules(*biased(false), found.rules)) == namedLayouts(*biased(true)));
}

TEST_CASE("rules: like layers are one rule, but for one that is laid out otherwise", "[search]") {
  auto layers = [](bool isGiven) {
    std::string variables, body, previous = "%x";
    for (int layer = 0; layer < 12; ++layer) {
      const std::string n = std::to_string(layer), axis = layer == 5 ? "" : "\"x\"";
      variables += "nn.variable @layer" + n + ".weight trainable : tensor<8x8xf32>" +
                   (isGiven ? " {dist.layout = #dist.layout<[{" + axis + "}, {} ]>}" : "") + "\n";
      body += "%w" + n + " = nn.read @layer" + n + ".weight : tensor<8x8xf32>\n%p" + n + " = nn.matmul " + previous + ", %w" + n +
              " : tensor<16x8xf32>, tensor<8x8xf32> -> tensor<16x8xf32>\n";
      previous = "%p" + n;
    }
    return parse("dist.mesh @mesh <[\"x\" = 2]>\n" + variables +
                 "func.func @forward(%x: tensor<16x8xf32>) -> tensor<16x8xf32> attributes {nn.program = #nn.program<run>} {\n" + body +
                 "return " + previous + " : tensor<16x8xf32>\n}");
  };
  OwningOpRef<ModuleOp> module = layers(false), given = layers(true);
  RulesOfLayouts found = rulesOf(*module, *given);
  CHECK(found.isMinimal);
  CHECK(textsOf(found) == std::vector<std::string>{"layer*.weight [{x}, {}]", "layer5.weight [{}, {}]"});
  CHECK(found.rules.front().priority == found.rules.back().priority + 1);
  CHECK(namedLayouts(*giveRules(*module, found.rules)) == namedLayouts(*given));
}

TEST_CASE("rules: like nodes are one rule, but for one that is laid out otherwise", "[search]") {
  auto layers = [](bool isGiven) {
    std::string body, previous = "%x";
    for (int layer = 0; layer < 12; ++layer) {
      const std::string n = std::to_string(layer), layout = layer == 5 ? "[{}, {\"x\"}]" : "[{\"x\"}, {}]";
      body += "%r" + n + " = nn.relu " + previous + " {nn.outputs = [\"layer" + n + ".act.out\"]" +
              (isGiven ? ", dist.layouts = [#dist.layout<" + layout + ">]" : "") + "} : tensor<16x8xf32> loc(\"layer" + n + ".act\")\n";
      previous = "%r" + n;
    }
    return parse("dist.mesh @mesh <[\"x\" = 2]>\nfunc.func @forward(%x: tensor<16x8xf32>) -> tensor<16x8xf32> attributes {nn.program = "
                 "#nn.program<run>} {\n" +
                 body + "return " + previous + " : tensor<16x8xf32>\n}");
  };
  OwningOpRef<ModuleOp> module = layers(false), given = layers(true);
  RulesOfLayouts found = rulesOf(*module, *given);
  CHECK(textsOf(found) == std::vector<std::string>{"layer*.act [{x}, {}]", "layer5.act [{}, {x}]"});
  CHECK(namedLayouts(*giveRules(*module, found.rules)) == namedLayouts(*given));
}

TEST_CASE("rules: exceptions of a rule have none of their own", "[search]") {
  auto norms = [](bool isGiven) {
    std::string variables;
    for (int layer = 0; layer < 4; ++layer) {
      for (int norm = 0; norm < 3; ++norm) { // most are split, and most of the last ones are not
        const std::string layout = norm == 2 && layer > 0 ? "[{}]" : "[{\"x\"}]";
        variables += "nn.variable @layer" + std::to_string(layer) + ".norm" + std::to_string(norm) + " trainable : tensor<8xf32>" +
                     (isGiven ? " {dist.layout = #dist.layout<" + layout + ">}" : "") + "\n";
      }
    }
    return parse(
        "dist.mesh @mesh <[\"x\" = 2]>\n" + variables +
        "func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> attributes {nn.program = #nn.program<run>} { return %x : tensor<8xf32> }");
  };
  OwningOpRef<ModuleOp> module = norms(false), given = norms(true);
  RulesOfLayouts found = rulesOf(*module, *given);
  CHECK(found.rules.front().match == "layer*.norm*");
  CHECK(namedLayouts(*giveRules(*module, found.rules)) == namedLayouts(*given));
}

// What the search finds in random programs, all of whose inputs, outputs and ops have names.
TEST_CASE("rules: they lead to what the search finds, and none can be left out", "[search]") {
  using Axes = std::vector<std::pair<StringRef, int64_t>>;
  const std::vector<Axes> meshes = {{{"x", 2}}, {{"x", 3}}, {{"x", 2}, {"y", 2}}};
  int several = 0, shortest = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    OwningOpRef<ModuleOp> module = randomProgram(context(), seed, meshOf(context(), meshes[seed % meshes.size()]), 10);
    auto function = module->lookupSymbol<func::FuncOp>("f");
    nn::setProgram(function, nn::ProgramRole::Run);
    Builder builder(&context());
    for (unsigned index = 0; index < function.getNumArguments(); ++index) {
      function.setArgAttr(index, nn::kNameAttr, builder.getStringAttr("in" + std::to_string(index)));
    }
    for (auto [number, op] : llvm::enumerate(function.front().without_terminator())) {
      if (op.getNumResults() == 1 && !isa<nn::ReadOp>(op)) {
        op.setAttr(nn::kOutputsAttr, builder.getStrArrayAttr({"op" + std::to_string(number)}));
      }
    }
    OwningOpRef<ModuleOp> given = module->clone();
    PassManager passes(&context());
    passes.addPass(createSearchLayoutsPass());
    REQUIRE(succeeded(passes.run(*given)));
    RulesOfLayouts found = rulesOf(*module, *given);
    const std::string wanted = namedLayouts(*given);
    CHECK(found.isMinimal);
    CHECK(namedLayouts(*giveRules(*module, found.rules)) == wanted);
    for (size_t left = 0; left < found.rules.size(); ++left) {
      std::vector<LayoutRule> fewer = found.rules;
      fewer.erase(fewer.begin() + left);
      CHECK(namedLayouts(*giveRules(*module, fewer)) != wanted);
    }
    several += found.rules.size() > 1;
    shortest += found.isShortest;
  }
  CHECK(several > 20);
  CHECK(shortest > 20);
}

} // namespace ashlar::test::rules_of_layouts_test

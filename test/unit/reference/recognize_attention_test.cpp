// SPDX-License-Identifier: Apache-2.0
//
// Programs before and after ashlar-recognize-attention, both run by the interpreter, for the forms that an attention has; and what CSE
// leaves of the expansions.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "passes/train/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <catch2/catch.hpp>

namespace ashlar::test::recognize_attention_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

// Masks %s, scores of tensor<2x3x4x5xf64>, to %t.
struct MaskForm {
  std::string name, text;
  bool isCausal = false, hasMask = false;
  int64_t window = 0;
  double softcap = 0;
  bool isRecognized = true;
};

const std::string kInf = "0xFFF0000000000000";
const std::string kScores = "tensor<2x3x4x5xf64>";

std::string distances(const std::string &type) {
  return "%d = nn.index [" + std::string(type == "4x5" ? "-1, 1" : "0, 0, -1, 1") + "] : tensor<" + type +
         "xi64>\n%z = nn.constant dense<1> : tensor<" + type + "xi64>\n%see = nn.compare le %d, %z : tensor<" + type + "xi64> -> tensor<" +
         type + "xi1>\n";
}

std::vector<MaskForm> maskForms() {
  const std::string kAdd = "%t = nn.add %s, %mb : " + kScores + "\n", kAddFirst = "%t = nn.add %mb, %s : " + kScores + "\n";
  const std::string kRepeat = "%mb = nn.broadcast %m dims = [2, 3] : tensor<4x5xf64> -> " + kScores + "\n";
  const std::string kRepeatBools = "%mb = nn.broadcast %see dims = [2, 3] : tensor<4x5xi1> -> tensor<2x3x4x5xi1>\n";
  const std::string kHidden = "%h = nn.constant dense<" + kInf + "> : " + kScores + "\n";
  const std::string kLow = "%h = nn.constant dense<-1.0e+30> : " + kScores + "\n";
  auto rows = [](const std::string &h) {
    return "%m = nn.constant dense<[[0.0, 0.0, " + h + ", " + h + ", " + h + "], [0.0, 0.0, 0.0, " + h + ", " + h +
           "], [0.0, 0.0, 0.0, 0.0, " + h + "], [0.0, 0.0, 0.0, 0.0, 0.0]]> : tensor<4x5xf64>\n";
  };
  return {
      {"no mask", "%t = nn.add %s, %zero : " + kScores + "\n"}, // a constant of zeros hides nothing
      {"-infinity above a diagonal", rows(kInf) + kRepeat + kAdd, true},
      {"a large number above a diagonal", rows("-1.0e+30") + kRepeat + kAddFirst, true},
      {"less than hides a key", rows("-1.0e+04") + kRepeat + kAdd, false, true},
      {"computed bools", distances("4x5") + kRepeatBools + kHidden + "%t = nn.select %mb, %s, %h : tensor<2x3x4x5xi1>, " + kScores + "\n",
       true},
      {"computed bools, and a large number",
       distances("2x3x4x5") + kLow + "%t = nn.select %see, %s, %h : tensor<2x3x4x5xi1>, " + kScores + "\n", true},
      {"inverted bools",
       distances("4x5") +
           "%not = nn.not %see : tensor<4x5xi1>\n%mb = nn.broadcast %not dims = [2, 3] : tensor<4x5xi1> -> tensor<2x3x4x5xi1>\n" + kHidden +
           "%t = nn.select %mb, %h, %s : tensor<2x3x4x5xi1>, " + kScores + "\n",
       true},
      {"an operand of floats", "%mb = nn.broadcast %f dims = [1, 3] : tensor<3x5xf64> -> " + kScores + "\n" + kAdd, false, true},
      {"an operand of bools and a large number",
       "%mb = nn.broadcast %bools dims = [0, 3] : tensor<2x5xi1> -> tensor<2x3x4x5xi1>\n" + kLow +
           "%t = nn.select %mb, %s, %h : tensor<2x3x4x5xi1>, " + kScores + "\n",
       false, true},
      {"an operand of bools and a large number, inverted",
       "%mb = nn.broadcast %bools dims = [0, 3] : tensor<2x5xi1> -> tensor<2x3x4x5xi1>\n" + kLow +
           "%t = nn.select %mb, %h, %s : tensor<2x3x4x5xi1>, " + kScores + "\n",
       false, true},
      {"causal and an operand",
       rows(kInf) + kRepeat + "%t1 = nn.add %s, %mb : " + kScores + "\n%fb = nn.broadcast %f dims = [1, 3] : tensor<3x5xf64> -> " +
           kScores + "\n%t = nn.add %t1, %fb : " + kScores + "\n",
       true, true},
      {"causal and a bias by distance, other for each head", // 2^-1, 2^-2 and 2^-3 a key
       rows(kInf) + kRepeat + "%t1 = nn.add %s, %mb : " + kScores +
           "\n%i = nn.index [0, -1, 1] : tensor<3x4x5xi64>\n%if = nn.cast %i : tensor<3x4x5xi64> -> tensor<3x4x5xf64>\n" +
           "%slope = nn.constant dense<[0.5, 0.25, 0.125]> : tensor<3xf64>\n%sb = nn.broadcast %slope dims = [0] : tensor<3xf64> -> " +
           "tensor<3x4x5xf64>\n%bias = nn.mul %sb, %if : tensor<3x4x5xf64>\n%bb = nn.broadcast %bias dims = [1, 2, 3] : " +
           "tensor<3x4x5xf64> -> " + kScores + "\n%t = nn.add %t1, %bb : " + kScores + "\n",
       true, true},
      {"a window of two keys", // rows see keys 0..1, 1..2, 2..3 and 3..4
       "%m = nn.constant dense<[[0.0, 0.0, " + kInf + ", " + kInf + ", " + kInf + "], [" + kInf + ", 0.0, 0.0, " + kInf + ", " + kInf +
           "], [" + kInf + ", " + kInf + ", 0.0, 0.0, " + kInf + "], [" + kInf + ", " + kInf + ", " + kInf +
           ", 0.0, 0.0]]> : tensor<4x5xf64>\n" + kRepeat + kAdd,
       true, false, 2},
      {"a window of three keys, by two masks",
       rows(kInf) + kRepeat + "%t1 = nn.add %s, %mb : " + kScores + "\n" + distances("4x5") +
           "%low = nn.constant dense<-1> : tensor<4x5xi64>\n%not = nn.compare ge %d, %low : tensor<4x5xi64> -> tensor<4x5xi1>\n"
           "%both = nn.and %see, %not : tensor<4x5xi1>\n%nb = nn.broadcast %both dims = [2, 3] : tensor<4x5xi1> -> tensor<2x3x4x5xi1>\n" +
           kHidden + "%t = nn.select %nb, %t1, %h : tensor<2x3x4x5xi1>, " + kScores + "\n",
       true, false, 3},
      {"rows of other keys", // the last one sees a key more than its window
       "%m = nn.constant dense<[[0.0, 0.0, " + kInf + ", " + kInf + ", " + kInf + "], [" + kInf + ", 0.0, 0.0, " + kInf + ", " + kInf +
           "], [" + kInf + ", " + kInf + ", 0.0, 0.0, " + kInf + "], [" + kInf + ", " + kInf + ", 0.0, 0.0, 0.0]]> : tensor<4x5xf64>\n" +
           kRepeat + kAdd,
       false, true},
      {"a row that sees more first keys than its window", // rows see keys 0..1, 0..2, 2..3 and 3..4
       "%m = nn.constant dense<[[0.0, 0.0, " + kInf + ", " + kInf + ", " + kInf + "], [0.0, 0.0, 0.0, " + kInf + ", " + kInf + "], [" +
           kInf + ", " + kInf + ", 0.0, 0.0, " + kInf + "], [" + kInf + ", " + kInf + ", " + kInf + ", 0.0, 0.0]]> : tensor<4x5xf64>\n" +
           kRepeat + kAdd,
       false, true},
      {"a softcap, then causal",
       "%cap = nn.constant dense<2.0> : " + kScores + "\n%s1 = nn.div %s, %cap : " + kScores + "\n%s2 = nn.tanh %s1 : " + kScores +
           "\n%s3 = nn.mul %s2, %cap : " + kScores + "\n" + rows(kInf) + kRepeat + "%t = nn.add %s3, %mb : " + kScores + "\n",
       true, false, 0, 2},
      {"a mask, then a softcap", // a division behind the mask would be a scale, which is refused anyway
       rows(kInf) + kRepeat + "%s0 = nn.add %s, %mb : " + kScores + "\n%cap = nn.constant dense<2.0> : " + kScores +
           "\n%s2 = nn.tanh %s0 : " + kScores + "\n%t = nn.mul %s2, %cap : " + kScores + "\n",
       false, false, 0, 0, /*isRecognized=*/false},
      {"a softcap of less than 0",
       "%cap = nn.constant dense<-2.0> : " + kScores + "\n%s1 = nn.div %s, %cap : " + kScores + "\n%s2 = nn.tanh %s1 : " + kScores +
           "\n%t = nn.mul %s2, %cap : " + kScores + "\n",
       false, false, 0, 0, /*isRecognized=*/false},
  };
}

// Makes %s of %q and %k by a scale of 0.35 in all.
std::vector<std::string> scoreForms() {
  const std::string kQ = "tensor<2x3x4x6xf64>", kK = "tensor<2x3x5x6xf64>", kT = "tensor<2x3x6x5xf64>";
  auto half = [](const std::string &name, const std::string &type) {
    return "%c" + name + " = nn.constant dense<0.5> : " + type + "\n%" + name + "c = nn.mul %" + name + ", %c" + name + " : " + type + "\n";
  };
  const std::string kTranspose = "nn.transpose %k [0, 1, 3, 2] : " + kK + " -> " + kT + "\n";
  const std::string kScale = "%c = nn.constant dense<0.35> : " + kScores + "\n%s = nn.mul %c, %p : " + kScores + "\n";
  const std::string kDivide = "%c = nn.constant dense<4.0> : " + kScores + "\n%s = nn.div %p, %c : " + kScores + "\n";
  return {
      "%p = nn.matmul %q, %k transpose_b : " + kQ + ", " + kK + " -> " + kScores + "\n" + kScale,
      "%kt = " + kTranspose + "%p = nn.matmul %q, %kt : " + kQ + ", " + kT + " -> " + kScores + "\n" + kScale,
      half("q", kQ) + "%p = nn.matmul %qc, %k transpose_b : " + kQ + ", " + kK + " -> " + kScores + "\n" + kDivide,
      half("q", kQ) + half("k", kK) + "%s = nn.matmul %qc, %kc transpose_b : " + kQ + ", " + kK + " -> " + kScores + "\n",
      "%kt = " + kTranspose + half("kt", kT) + "%s = nn.matmul %q, %ktc : " + kQ + ", " + kT + " -> " + kScores + "\n",
      "%kf = nn.reshape %k : " + kK +
          " -> tensor<6x5x6xf64>\n%kft = nn.transpose %kf [0, 2, 1] : tensor<6x5x6xf64> -> tensor<6x6x5xf64>\n" +
          "%kt = nn.reshape %kft : tensor<6x6x5xf64> -> " + kT + "\n%p = nn.matmul %q, %kt : " + kQ + ", " + kT + " -> " + kScores + "\n" +
          kScale,
      half("k", kK) + "%kt = nn.transpose %kc [0, 1, 3, 2] : " + kK + " -> " + kT + "\n%s = nn.matmul %q, %kt : " + kQ + ", " + kT +
          " -> " + kScores + "\n",
  };
}

std::string programText(const std::string &scores, const std::string &mask) {
  return "func.func @forward(%q: tensor<2x3x4x6xf64>, %k: tensor<2x3x5x6xf64>, %v: tensor<2x3x5x2xf64>, %f: tensor<3x5xf64>, "
         "%bools: tensor<2x5xi1>) -> tensor<2x3x4x2xf64> attributes {nn.program = #nn.program<run>} {\n%zero = nn.constant dense<0.0> : " +
         kScores + "\n" + scores + mask + "%w = nn.softmax %t : " + kScores + "\n%y = nn.matmul %w, %v : " + kScores +
         ", tensor<2x3x5x2xf64> -> tensor<2x3x4x2xf64>\nreturn %y : tensor<2x3x4x2xf64>\n}";
}

void recognize(ModuleOp module) {
  PassManager passes(&context());
  passes.addPass(train::createRecognizeAttentionPass());
  REQUIRE(succeeded(passes.run(module)));
}

} // namespace

// Two heads for each of three keys: products of their rows together, a softmax of each on its own, masked or not; or the mask and the
// softmax of the rows together, of which no head is seen.
TEST_CASE("recognize attention: heads that share keys", "[reference][attention]") {
  std::mt19937_64 random(testSeed());
  for (const bool isMasked : {false, true}) {
    const std::string groups = "tensor<2x3x8x5xf64>", scores = "tensor<2x6x4x5xf64>";
    std::string text =
        "func.func @forward(%q: tensor<2x3x8x6xf64>, %k: tensor<2x3x5x6xf64>, %v: tensor<2x3x5x2xf64>, %m: tensor<5xf64>) "
        "-> tensor<2x3x8x2xf64> attributes {nn.program = #nn.program<run>} {\n%c = nn.constant dense<0.5> : " +
        groups + "\n%p = nn.matmul %q, %k transpose_b : tensor<2x3x8x6xf64>, tensor<2x3x5x6xf64> -> " + groups +
        "\n%s = nn.mul %p, %c : " + groups + "\n%h = nn.reshape %s : " + groups + " -> " + scores +
        (isMasked ? "\n%b = nn.broadcast %m dims = [3] : tensor<5xf64> -> " + scores + "\n%t = nn.add %h, %b : " + scores : "") +
        "\n%w = nn.softmax " + (isMasked ? "%t" : "%h") + " : " + scores + "\n%g = nn.reshape %w : " + scores + " -> " + groups +
        "\n%y = nn.matmul %g, %v {nn.outputs = [\"y\"]} : " + groups +
        ", tensor<2x3x5x2xf64> -> tensor<2x3x8x2xf64>\nreturn %y : tensor<2x3x8x2xf64>\n}";
    INFO(text);
    OwningOpRef<ModuleOp> before = parse(text), after = before->clone();
    recognize(*after);
    int64_t count = 0, named = 0;
    after->walk([&](nn::AttentionOp op) {
      ++count;
      CHECK(op.getType().getShape() == ArrayRef<int64_t>({2, 6, 4, 2}));
      CHECK(op.getScale().convertToDouble() == 0.5);
      CHECK(static_cast<bool>(op.getMask()) == isMasked);
    });
    after->walk([&](nn::ReshapeOp op) { named += op->hasAttr(nn::kOutputsAttr); });
    CHECK(count == 1);
    CHECK(named == 1);
    std::vector<Tensor> inputs;
    for (RankedTensorType type : reference::globalArgumentTypes(before->lookupSymbol<func::FuncOp>("forward"))) {
      inputs.push_back(reference::randomTensor(type, random, /*intLimit=*/1));
    }
    CHECK(reference::maxDifference(run(*before, "forward", inputs).front(), run(*after, "forward", inputs).front()) < 1e-13);
  }
}

// Weights of which a number for each one leaves some out, as the import of Dropout writes it, and what is none.
TEST_CASE("recognize attention: a dropout of the weights draws the same numbers", "[reference][attention]") {
  struct DropoutForm {
    std::string name, kept, compare, product, random;
    bool isRecognized;
  };
  const std::string kKept = "1.4285714285714286"; // 1 / (1 - 0.3)
  const DropoutForm forms[] = {
      {"a dropout", kKept, "ge", "%w, %mask {nn.training_only}", "f64", true},
      {"its factors first, of no training", kKept, "ge", "%mask, %w", "f64", true},
      {"another factor", "1.5", "ge", "%w, %mask {nn.training_only}", "f64", false},
      {"the other weights", kKept, "lt", "%w, %mask {nn.training_only}", "f64", false},
      {"numbers of another type", kKept, "ge", "%w, %mask {nn.training_only}", "f32", false},
      {"an evaluation has the factors", kKept, "ge", "%mask, %w {nn.training_only}", "f64", false},
  };
  uint64_t seed = testSeed();
  std::mt19937_64 random(seed);
  for (const DropoutForm &form : forms) {
    const std::string drawn = "tensor<2x3x4x5x" + form.random + ">", bools = "tensor<2x3x4x5xi1>";
    std::string text =
        "func.func @forward(%q: tensor<2x3x4x6xf64>, %k: tensor<2x3x5x6xf64>, %v: tensor<2x3x5x2xf64>, %seed: tensor<i64>) -> "
        "tensor<2x3x4x2xf64> attributes {nn.program = #nn.program<run>} {\n%s = nn.matmul %q, %k transpose_b : tensor<2x3x4x6xf64>, "
        "tensor<2x3x5x6xf64> -> " +
        kScores + "\n%w = nn.softmax %s : " + kScores + "\n%i = nn.index [60, 20, 5, 1] : tensor<2x3x4x5xi64>\n" +
        "%step = nn.constant dense<9> : tensor<i64>\n%stream = nn.constant dense<5> : tensor<i32>\n" +
        "%u = nn.random uniform %i, %seed, %step, %stream : (tensor<2x3x4x5xi64>, tensor<i64>, tensor<i64>, tensor<i32>) -> " + drawn +
        "\n%ratio = nn.constant dense<0.3> : " + drawn + "\n%kept = nn.constant dense<" + form.kept + "> : " + kScores +
        "\n%none = nn.constant dense<0.0> : " + kScores + "\n%keep = nn.compare " + form.compare + " %u, %ratio : " + drawn + " -> " +
        bools + "\n%mask = nn.select %keep, %kept, %none : " + bools + ", " + kScores + "\n%d = nn.mul " + form.product + " : " + kScores +
        "\n%y = nn.matmul %d, %v : " + kScores + ", tensor<2x3x5x2xf64> -> tensor<2x3x4x2xf64>\nreturn %y : tensor<2x3x4x2xf64>\n}";
    INFO("seed " << seed << ", " << form.name << "\n" << text);
    OwningOpRef<ModuleOp> before = parse(text), after = before->clone();
    recognize(*after);
    int64_t count = 0, randoms = 0;
    after->walk([&](nn::AttentionOp op) {
      ++count;
      CHECK(op.getDropout().convertToDouble() == 0.3);
      CHECK(op->hasAttr(nn::kTrainingOnlyAttr) == (form.product.find("training") != std::string::npos));
    });
    after->walk([&](nn::RandomOp) { ++randoms; });
    CHECK(count == (form.isRecognized ? 1 : 0));
    CHECK(randoms == (form.isRecognized ? 0 : 1));
    std::vector<Tensor> inputs;
    for (RankedTensorType type : reference::globalArgumentTypes(before->lookupSymbol<func::FuncOp>("forward"))) {
      inputs.push_back(reference::randomTensor(type, random, /*intLimit=*/1000));
    }
    CHECK(reference::maxDifference(run(*before, "forward", inputs).front(), run(*after, "forward", inputs).front()) < 1e-13);
  }
}

// Rows of weights that are 0 instead, by bools or where they are NaN: the result has zeros there, behind the op. What are no rows, or no
// zeros, is no such form. The first row of each head sees no key, so that its weights are NaN; a value is NaN for the last sample.
TEST_CASE("recognize attention: rows of zeros", "[reference][attention]") {
  struct RowForm {
    std::string name, hidden, number;
    bool isRecognized;
  };
  const std::string kBools = "tensor<2x3x4x5xi1>";
  auto compared = [&](const std::string &predicate, const std::string &other) {
    return "nn.compare " + predicate + " %w, " + other + " : " + kScores + " -> " + kBools;
  };
  const RowForm forms[] = {{"samples", "nn.broadcast %samples dims = [0] : tensor<2xi1> -> " + kBools, "0.0", true},
                           {"rows", "nn.broadcast %rows dims = [1, 2] : tensor<3x4xi1> -> " + kBools, "0.0", true},
                           {"keys", "nn.broadcast %keys dims = [3] : tensor<5xi1> -> " + kBools, "0.0", false},
                           {"another number", "nn.broadcast %samples dims = [0] : tensor<2xi1> -> " + kBools, "1.0", false},
                           {"NaN", compared("ne", "%w"), "0.0", true},
                           {"NaN becomes another number", compared("ne", "%w"), "1.0", false},
                           {"other weights", compared("ne", "%zero"), "0.0", false},
                           {"weights that are numbers", compared("eq", "%w"), "0.0", false}};
  std::mt19937_64 random(testSeed());
  for (const RowForm &form : forms) {
    std::string text =
        "func.func @forward(%q: tensor<2x3x4x6xf64>, %k: tensor<2x3x5x6xf64>, %v: tensor<2x3x5x2xf64>, %samples: tensor<2xi1>, "
        "%rows: tensor<3x4xi1>, %keys: tensor<5xi1>) -> tensor<2x3x4x2xf64> attributes {nn.program = #nn.program<run>} {\n"
        "%f = nn.constant dense<[" +
        kInf + ", 0.0, 0.0, 0.0]> : tensor<4xf64>\n%mask = nn.broadcast %f dims = [2] : tensor<4xf64> -> " + kScores +
        "\n%p = nn.matmul %q, %k transpose_b : tensor<2x3x4x6xf64>, tensor<2x3x5x6xf64> -> " + kScores +
        "\n%s = nn.add %p, %mask : " + kScores + "\n%w = nn.softmax %s : " + kScores + "\n%zero = nn.constant dense<" + form.number +
        "> : " + kScores + "\n%hidden = " + form.hidden + "\n%seen = nn.select %hidden, %zero, %w : " + kBools + ", " + kScores +
        "\n%y = nn.matmul %seen, %v : " + kScores + ", tensor<2x3x5x2xf64> -> tensor<2x3x4x2xf64>\nreturn %y : tensor<2x3x4x2xf64>\n}";
    INFO(form.name << "\n" << text);
    OwningOpRef<ModuleOp> before = parse(text), after = before->clone();
    recognize(*after);
    int64_t count = 0;
    after->walk([&](nn::AttentionOp) { ++count; });
    CHECK(count == (form.isRecognized ? 1 : 0));
    std::vector<Tensor> inputs;
    for (RankedTensorType type : reference::globalArgumentTypes(before->lookupSymbol<func::FuncOp>("forward"))) {
      inputs.push_back(reference::randomTensor(type, random, /*intLimit=*/1));
    }
    inputs[2].setFloat(inputs[2].getNumElements() - 1, std::nan(""));
    Tensor expected = run(*before, "forward", inputs).front(), actual = run(*after, "forward", inputs).front();
    for (int64_t i = 0; i < expected.getNumElements(); ++i) {
      INFO("element " << i);
      // A row of zeros times a NaN is NaN in a product, and 0 behind the op. A row that sees a key keeps the NaN of a value.
      const bool isOfNan = i % 2 == 1 && i >= 40, seesKey = i / 2 % 4 != 0;
      const bool isStrict = !form.isRecognized || !isOfNan || (form.name == "NaN" && seesKey);
      const double x = expected.getFloat(i), y = actual.getFloat(i);
      CHECK((std::isnan(x) ? std::isnan(y) || (!isStrict && y == 0) : std::abs(x - y) < 1e-13));
    }
  }
}

TEST_CASE("recognize attention: every form computes what it did", "[reference][attention]") {
  uint64_t seed = testSeed();
  std::mt19937_64 random(seed);
  for (const std::string &scores : scoreForms()) {
    for (const MaskForm &mask : maskForms()) {
      std::string text = programText(scores, mask.text);
      INFO("seed " << seed << ", " << mask.name << "\n" << text);
      OwningOpRef<ModuleOp> before = parse(text), after = before->clone();
      recognize(*after);
      int64_t count = 0;
      after->walk([&](nn::AttentionOp op) {
        ++count;
        CHECK(op.getCausal() == mask.isCausal);
        CHECK(op.getDiagonal() == (mask.isCausal ? 1 : 0));
        CHECK(static_cast<int64_t>(op.getWindow()) == mask.window);
        CHECK(op.getSoftcap().convertToDouble() == mask.softcap);
        CHECK(static_cast<bool>(op.getMask()) == mask.hasMask);
      });
      int64_t softmaxes = 0, transposes = 0;
      after->walk([&](nn::SoftmaxOp) { ++softmaxes; });
      after->walk([&](nn::TransposeOp) { ++transposes; });
      CHECK((!mask.isRecognized || transposes == 0)); // the key is taken from before its transpose
      CHECK(count == (mask.isRecognized ? 1 : 0));
      CHECK(softmaxes == (mask.isRecognized ? 0 : 1));
      std::vector<Tensor> inputs;
      for (RankedTensorType type : reference::globalArgumentTypes(before->lookupSymbol<func::FuncOp>("forward"))) {
        inputs.push_back(reference::randomTensor(type, random, /*intLimit=*/1));
      }
      for (int64_t row : {0, 1}) { // each row sees a key, whichever way round the bools are: docs/attention.md has the others
        inputs.back().setInt(5 * row, 0);
        inputs.back().setInt(5 * row + 1, 1);
      }
      Tensor expected = run(*before, "forward", inputs).front(), actual = run(*after, "forward", inputs).front();
      CHECK(reference::maxDifference(expected, actual) < 1e-13); // sums of 6 and 5 terms of size 1, in another order
    }
  }
}

} // namespace ashlar::test::recognize_attention_test

// SPDX-License-Identifier: Apache-2.0
//
// The gradient of every nn op against central differences in f64, on random shapes. One row of `kCases` an op (or form of an op): the text
// of the op over operands %a, %b, %c, their types, and the range of their elements, which keeps away from kinks and poles. An op may take
// the result of another one before it; its gradient counts the way through that.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"

#include <catch2/catch.hpp>

#include <set>

namespace ashlar::test::gradient_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

struct Operand {
  std::string type;
  double low = -2, high = 2;
  double kink = -1e9;   // elements stay 0.01 away from it
  bool isFixed = false; // floats without a gradient
};

struct Case {
  std::string name;
  std::vector<Operand> operands;
  std::string op;
  std::string resultType;
  std::string widened = ""; // the type that is of f32 where others are of bf16 or f16
  std::string before = "";  // ops whose results the op takes
};

// Draws the sizes of a case.
class Sizes {
public:
  explicit Sizes(uint64_t seed) : generator(seed) {}

  int64_t draw() { return 1 + static_cast<int64_t>(generator() % 4); }

  // Returns "2x3xf64": `rank` random sizes.
  std::string type(int64_t rank, StringRef element = "f64") {
    std::vector<int64_t> shape;
    for (int64_t d = 0; d < rank; ++d) {
      shape.push_back(draw());
    }
    return typeOf(shape, element);
  }

  static std::string typeOf(ArrayRef<int64_t> shape, StringRef element = "f64") {
    std::string text = "tensor<";
    for (int64_t size : shape) {
      text += std::to_string(size) + "x";
    }
    return text + element.str() + ">";
  }

  std::mt19937_64 generator;
};

std::string replaceAll(std::string text, const std::string &from, StringRef to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to.str());
  }
  return text;
}

std::string replaceElement(std::string type, StringRef element) {
  return type.replace(type.find("f64"), 3, element.str());
}

void addUnaryCases(std::vector<Case> &cases, Sizes &sizes) {
  struct Row {
    const char *op;
    double low, high, kink;
  };
  constexpr double kNone = -1e9;
  for (Row row :
       {Row{"neg", -2, 2, kNone},       Row{"abs", -2, 2, 0},           Row{"sign", -2, 2, 0},           Row{"floor", 0.1, 0.9, kNone},
        Row{"ceil", 1.1, 1.9, kNone},   Row{"round", -0.4, 0.4, kNone}, Row{"sin", -2, 2, kNone},        Row{"cos", -2, 2, kNone},
        Row{"tan", -1.2, 1.2, kNone},   Row{"asin", -0.9, 0.9, kNone},  Row{"acos", -0.9, 0.9, kNone},   Row{"atan", -2, 2, kNone},
        Row{"sinh", -2, 2, kNone},      Row{"cosh", -2, 2, kNone},      Row{"asinh", -2, 2, kNone},      Row{"acosh", 1.2, 3, kNone},
        Row{"atanh", -0.9, 0.9, kNone}, Row{"exp", -2, 2, kNone},       Row{"log", 0.5, 3, kNone},       Row{"sqrt", 0.5, 3, kNone},
        Row{"erf", -2, 2, kNone},       Row{"tanh", -2, 2, kNone},      Row{"sigmoid", -2, 2, kNone},    Row{"relu", -2, 2, 0},
        Row{"gelu", -2, 2, kNone},      Row{"softmax", -2, 2, kNone},   Row{"log_softmax", -2, 2, kNone}}) {
    std::string type = sizes.type(2);
    cases.push_back({row.op, {{type, row.low, row.high, row.kink}}, std::string("nn.") + row.op + " %a : " + type, type});
  }
  std::string type = sizes.type(3);
  cases.push_back({"gelu tanh", {{type}}, "nn.gelu %a tanh_approximation : " + type, type});
  cases.push_back({"leaky_relu", {{type, -2, 2, 0}}, "nn.leaky_relu %a, 1.000000e-01 : " + type, type});
  cases.push_back({"leaky_relu, negative alpha", {{type, -2, 2, 0}}, "nn.leaky_relu %a, -5.000000e-01 : " + type, type});
  cases.push_back({"cast", {{type}}, "nn.cast %a : " + type + " -> " + type, type});
}

void addBinaryCases(std::vector<Case> &cases, Sizes &sizes) {
  std::string type = sizes.type(2);
  for (const char *op : {"add", "sub", "mul", "max", "min"}) {
    cases.push_back({op, {{type}, {type}}, std::string("nn.") + op + " %a, %b : " + type, type});
  }
  cases.push_back({"div", {{type}, {type, 0.5, 2}}, "nn.div %a, %b : " + type, type});
  cases.push_back({"rem", {{type, 4.1, 4.4}, {type, 1.5, 2}}, "nn.rem %a, %b : " + type, type}); // all quotients truncate to 2
  cases.push_back({"pow", {{type, 0.5, 2}, {type}}, "nn.pow %a, %b : " + type, type});
  std::string condition = replaceElement(type, "i1");
  cases.push_back({"select", {{condition}, {type}, {type}}, "nn.select %a, %b, %c : " + condition + ", " + type, type});
  // One value as both operands: its gradients add up.
  cases.push_back({"mul of equals", {{type}}, "nn.mul %a, %a : " + type, type});
}

void addShapeCases(std::vector<Case> &cases, Sizes &sizes) {
  int64_t m = sizes.draw(), n = sizes.draw(), k = sizes.draw();
  auto type = [](std::initializer_list<int64_t> shape) { return Sizes::typeOf(shape); };
  std::string wide = type({m, n, k});
  cases.push_back({"broadcast", {{type({n})}}, "nn.broadcast %a dims = [1] : " + type({n}) + " -> " + wide, wide});
  cases.push_back({"broadcast of a scalar", {{type({})}}, "nn.broadcast %a dims = [] : tensor<f64> -> " + wide, wide});
  cases.push_back({"reshape", {{wide}}, "nn.reshape %a : " + wide + " -> " + type({m * n, k}), type({m * n, k})});
  cases.push_back({"transpose", {{wide}}, "nn.transpose %a [2, 0, 1] : " + wide + " -> " + type({k, m, n}), type({k, m, n})});
  cases.push_back({"concat",
                   {{type({m, n})}, {type({m, k})}},
                   "nn.concat %a, %b dim = 1 : (" + type({m, n}) + ", " + type({m, k}) + ") -> " + type({m, n + k}),
                   type({m, n + k})});
  std::string from = type({m, 5 + n}), piece = type({m, 2});
  cases.push_back({"slice", {{from}}, "nn.slice %a [0, 1] to [" + std::to_string(m) + ", 5] by [1, 3] : " + from + " -> " + piece, piece});
  cases.push_back({"pad", {{piece}}, "nn.pad %a low = [0, 1] interior = [0, 2] : " + piece + " -> " + from, from});
  // Numbers reach one row beyond each end of the table.
  std::string table = type({m, k}), rows = type({n, 2, k});
  for (const char *element : {"i32", "i64"}) {
    std::string places = Sizes::typeOf({n, 2}, element);
    Operand numbers{places, -1, static_cast<double>(m)};
    cases.push_back({"gather", {{table}, numbers}, "nn.gather %a, %b : " + table + ", " + places + " -> " + rows, rows});
    cases.push_back({"scatter_add", {numbers, {rows}}, "nn.scatter_add %a, %b : " + places + ", " + rows + " -> " + table, table});
    // A table of n rows for each element of the batch, and rows that are one element.
    std::string ofBatch = Sizes::typeOf({m, 2}, element), taken = type({m, 2, k}), ofEach = Sizes::typeOf({m, n}, element);
    Operand batchNumbers{ofBatch, -1, static_cast<double>(n)}, eachNumbers{ofEach, -1, static_cast<double>(k)};
    std::string one = " batch_dims = 1 : ", two = " batch_dims = 2 : ", flat = type({m, n});
    cases.push_back({"gather", {{wide}, batchNumbers}, "nn.gather %a, %b" + one + wide + ", " + ofBatch + " -> " + taken, taken});
    cases.push_back({"gather", {{wide}, eachNumbers}, "nn.gather %a, %b" + two + wide + ", " + ofEach + " -> " + flat, flat});
    cases.push_back({"scatter_add", {batchNumbers, {taken}}, "nn.scatter_add %a, %b" + one + ofBatch + ", " + taken + " -> " + wide, wide});
    cases.push_back({"scatter_add", {eachNumbers, {flat}}, "nn.scatter_add %a, %b" + two + ofEach + ", " + flat + " -> " + wide, wide});
  }
  // The first row may be dropped, or the last one.
  for (const char *element : {"i32", "i64"}) {
    std::string index = Sizes::typeOf({}, element), some = type({m, 2, k});
    cases.push_back({"insert",
                     {{some}, {wide}, {index, -1, static_cast<double>(n)}},
                     "nn.insert %a into %b at %c dim = 1 : " + some + ", " + wide + ", " + index + " -> " + wide,
                     wide});
  }
  for (const char *kind : {"sum", "max", "min"}) {
    cases.push_back({std::string("reduce ") + kind,
                     {{wide}},
                     std::string("nn.reduce ") + kind + " %a dims = [0, 2] : " + wide + " -> " + type({n}),
                     type({n})});
  }
}

// Windows with padding, with elements left out, and of strides that leave elements in no window; sums of elements of which some are used
// often, and one never.
void addWindowCases(std::vector<Case> &cases, Sizes &sizes) {
  int64_t b = sizes.draw(), c = sizes.draw();
  auto type = [&](std::initializer_list<int64_t> middle) {
    std::vector<int64_t> shape{b};
    shape.insert(shape.end(), middle);
    shape.push_back(c);
    return Sizes::typeOf(shape);
  };
  const std::string kWindows = "dims = [1, 2] [#nn.window<3, stride = 2, dilation = 1, low = 1, high = 2>, "
                               "#nn.window<2, stride = 3, dilation = 2, low = -1, high = 1>]";
  std::string from = type({5, 8}), pooled = type({3, 2}), inWindows = type({3, 2, 3, 2}), ofElements = type({5, 8, 3, 2});
  cases.push_back({"windows", {{from}}, "nn.windows %a " + kWindows + " : " + from + " -> " + inWindows, inWindows});
  cases.push_back({"unwindows", {{inWindows}}, "nn.unwindows %a " + kWindows + " : " + inWindows + " -> " + ofElements, ofElements});
  cases.push_back({"max_pool", {{from}}, "nn.max_pool %a " + kWindows + " : " + from + " -> " + pooled, pooled});
  const std::string kPlaces = " dim = 1 places = dense<[[0, 2], [-1, 2], [5, 4], [0, 0]]> : tensor<4x2xi64>";
  std::string row = type({5}), sums = type({4});
  cases.push_back({"resample", {{row}}, "nn.resample %a" + kPlaces + " : " + row + " -> " + sums, sums});
  cases.push_back({"resample with weights",
                   {{row}},
                   "nn.resample %a" + kPlaces +
                       " weights = dense<[[0.5, 2.0], [1.0, -1.5], [3.0, 0.25], [1.0, 0.75]]> : tensor<4x2xf64> : " + row + " -> " + sums,
                   sums});
}

void addContractionCases(std::vector<Case> &cases, Sizes &sizes) {
  for (int64_t rank : {2, 3}) {
    for (int form = 0; form < 4; ++form) {
      bool ta = form & 1, tb = form & 2;
      int64_t b = sizes.draw(), m = sizes.draw(), n = sizes.draw(), k = sizes.draw();
      auto type = [&](int64_t rows, int64_t columns, bool swap) {
        std::vector<int64_t> shape = swap ? std::vector<int64_t>{columns, rows} : std::vector<int64_t>{rows, columns};
        if (rank == 3) {
          shape.insert(shape.begin(), b);
        }
        return Sizes::typeOf(shape);
      };
      std::string lhs = type(m, k, ta), rhs = type(k, n, tb), result = type(m, n, false);
      cases.push_back({"matmul form " + std::to_string(form) + " rank " + std::to_string(rank),
                       {{lhs}, {rhs}},
                       std::string("nn.matmul %a, %b") + (ta ? " transpose_a" : "") + (tb ? " transpose_b" : "") + " : " + lhs + ", " +
                           rhs + " -> " + result,
                       result});
    }
  }
  // Labels reach one class beyond the last: those rows have no loss and no gradient.
  int64_t rows = sizes.draw() + 3, classes = sizes.draw() + 1;
  std::string logits = Sizes::typeOf({rows, classes}), loss = Sizes::typeOf({rows});
  for (const char *element : {"i32", "i64"}) {
    std::string labels = Sizes::typeOf({rows}, element);
    cases.push_back({std::string("softmax_cross_entropy ") + element,
                     {{logits}, {labels, -1, static_cast<double>(classes)}},
                     "nn.softmax_cross_entropy %a, %b : " + logits + ", " + labels + " -> " + loss,
                     loss});
  }
}

// One convolution of each kind in 1 to 3 spatial dims, with groups, strides, dilations and padding of any kind; small, since each element
// of an operand takes two runs.
void addConvolutionCases(std::vector<Case> &cases, Sizes &sizes) {
  for (int64_t spatial : {1, 2, 3}) {
    bool last = sizes.draw() % 2 == 0, weightsLast = sizes.draw() % 2 == 0;
    auto below = [&](int64_t limit) { return sizes.draw() % limit; };
    int64_t groups = 1 + below(2), channels = groups * (1 + below(2)), outputs = groups * (1 + below(2));
    std::vector<int64_t> x = {1 + below(2), channels}, weights = {outputs, channels / groups}, y = {x[0], outputs};
    std::string windows;
    for (int64_t i = 0; i < spatial; ++i) {
      int64_t size = 1 + below(spatial == 3 ? 2 : 3), stride = 1 + below(3), dilation = 1 + below(spatial == 3 ? 1 : 2);
      int64_t low = below(3) - 1, high = below(3) - 1, span = (size - 1) * dilation + 1;
      int64_t in = std::max<int64_t>(span - low - high, 1) + below(spatial == 3 ? 2 : 3), out = (in + low + high - span) / stride + 1;
      x.insert(last ? x.end() - 1 : x.end(), in);
      y.insert(last ? y.end() - 1 : y.end(), out);
      weights.insert(weightsLast ? weights.end() - 1 : weights.end(), size);
      windows += std::string(i > 0 ? ", " : "") + "#nn.window<" + std::to_string(size) + ", stride = " + std::to_string(stride) +
                 ", dilation = " + std::to_string(dilation) + ", low = " + std::to_string(low) + ", high = " + std::to_string(high) + ">";
    }
    std::string attributes =
        std::string(last ? " channels_last" : "") + (weightsLast ? " weights_last" : "") + " windows = [" + windows + "] : ";
    std::string xType = Sizes::typeOf(x), weightsType = Sizes::typeOf(weights), yType = Sizes::typeOf(y);
    auto add = [&](const std::string &op, const std::string &first, const std::string &second, const std::string &result) {
      cases.push_back({op + std::to_string(spatial) + "d",
                       {{first}, {second}},
                       "nn." + op + " %a, %b" + attributes + first + ", " + second + " -> " + result,
                       result});
    };
    add("conv", xType, weightsType, yType);
    add("conv_data", yType, weightsType, xType);
    add("conv_weights", xType, yType, weightsType);
  }
}

// Statistics of channels, of (sample, channel), and of all at once.
void addNormalizationCases(std::vector<Case> &cases, Sizes &sizes) {
  int64_t n = sizes.draw() + 1, c = sizes.draw(), k = sizes.draw() + 1;
  std::string x = Sizes::typeOf({n, c, k});
  struct Form {
    std::vector<int64_t> kept;
    std::string keptDims, otherDims;
  };
  for (const Form &form : {Form{{c}, "[1]", "[0, 2]"}, Form{{n, c}, "[0, 1]", "[2]"}, Form{{}, "[]", "[0, 1, 2]"}}) {
    std::vector<int64_t> pair = {2};
    pair.insert(pair.end(), form.kept.begin(), form.kept.end());
    std::string statistic = Sizes::typeOf(form.kept), both = Sizes::typeOf(pair);
    cases.push_back({"moments along " + form.otherDims,
                     {{x}},
                     "nn.moments %a dims = " + form.otherDims + " : " + x + " -> " + both,
                     both,
                     /*widened=*/both});
    cases.push_back({"normalize of " + form.keptDims,
                     {{x}, {statistic}, {statistic}, {statistic}, {statistic, 0.5, 2}},
                     "nn.normalize %a, %b, %c, %d, %e dims = " + form.keptDims + " epsilon = 1.0e-01 : " + x + ", " + statistic,
                     x});
  }
}

// Of the query, the key and the value, through the logarithms of sums as well; masks of bools and floats, and causal.
void addAttentionCases(std::vector<Case> &cases, Sizes &sizes) {
  for (const char *form : {"plain", "bool", "float", "causal", "window", "softcap", "dropout"}) {
    std::string name = form;
    int64_t batch = sizes.draw(), rows = sizes.draw(), keys = sizes.draw(), width = sizes.draw(), columns = sizes.draw();
    auto type = [&](int64_t first, int64_t second) { return Sizes::typeOf({batch, first, second}); };
    std::string q = type(rows, width), k = type(keys, width), v = type(keys, columns), out = type(rows, columns), mask;
    std::string logSum = Sizes::typeOf({batch, rows});
    std::vector<Operand> operands = {{q}, {k}, {v}};
    if (name == "float") {
      operands.push_back({mask = Sizes::typeOf({1, rows, keys}), -2, 2, -1e9, /*isFixed=*/true});
    } else if (name == "bool") { // all true: a row without a key is NaN
      operands.push_back({mask = Sizes::typeOf({batch, 1, keys}, "i1"), 1, 1});
    }
    std::string attributes = std::string(mask.empty() ? "" : " mask = %d") + " scale = 7.500000e-01";
    if (name == "causal" || name == "window") { // each row sees a key
      const int64_t diagonal = sizes.draw() - 1;
      attributes += " causal diagonal = " + std::to_string(diagonal);
      attributes += name == "window" ? " window = " + std::to_string(diagonal + std::max<int64_t>(rows - keys, 0) + 2) : "";
    }
    attributes += name == "softcap" ? " softcap = 5.000000e-01" : "";
    std::string more = mask.empty() ? "" : ", " + mask;
    std::string before = "%l = nn.attention_log_sum %a, %b" + attributes + " : (" + q + ", " + k + more + ") -> " + logSum;
    if (name == "dropout") {
      std::string ofRows = Sizes::typeOf({batch, rows}, "i64"), ofKeys = Sizes::typeOf({1, keys}, "i64");
      before += "\n%i = nn.index [100, 10] : " + ofRows + "\n%j = nn.index [0, 1] : " + ofKeys +
                "\n%n = nn.constant dense<7> : tensor<i64>\n%stream = nn.constant dense<3> : tensor<i32>";
      attributes += " dropout = 2.500000e-01 by %i, %j, %n, %n, %stream";
      more = ", " + ofRows + ", " + ofKeys + ", tensor<i64>, tensor<i64>, tensor<i32>";
    }
    cases.push_back({"attention, " + name, operands,
                     "nn.attention %a, %b, %c, %l" + attributes + " : (" + q + ", " + k + ", " + v + ", " + logSum + more + ") -> " + out,
                     out,
                     /*widened=*/logSum, before});
  }
}

std::vector<Case> makeCases(uint64_t seed) {
  Sizes sizes(seed);
  std::vector<Case> cases;
  addUnaryCases(cases, sizes);
  addBinaryCases(cases, sizes);
  addShapeCases(cases, sizes);
  addWindowCases(cases, sizes);
  addContractionCases(cases, sizes);
  addConvolutionCases(cases, sizes);
  addNormalizationCases(cases, sizes);
  addAttentionCases(cases, sizes);
  return cases;
}

std::string moduleText(const Case &c) {
  std::string arguments;
  for (auto [i, operand] : llvm::enumerate(c.operands)) {
    arguments += (i ? ", %" : "%") + std::string(1, static_cast<char>('a' + i)) + ": " + operand.type;
  }
  return "func.func @f(" + arguments + ") -> " + c.resultType + " { " + c.before + "\n %r = " + c.op + "\n return %r : " + c.resultType +
         " }";
}

// Adds @gradient: the arguments of @f and the gradient of its result, to the gradients of the arguments that have one. Returns which have.
std::vector<bool> addGradientFunction(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>("f").clone();
  function.setName("gradient");
  module.push_back(function);
  Operation *terminator = function.getBody().front().getTerminator(), *op = terminator->getPrevNode();
  Location loc = op->getLoc();
  Value resultGradient = function.getBody().front().addArgument(op->getResult(0).getType(), loc);
  OpBuilder builder(terminator);
  SmallVector<Value> gradients(op->getNumOperands());
  cast<GradientOpInterface>(op).buildGradients(builder, resultGradient, gradients);
  // Per argument, the sum over the operands that are this argument.
  SmallVector<Value> results;
  std::vector<bool> has;
  for (BlockArgument argument : function.getBody().front().getArguments().drop_back()) {
    Value sum;
    for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), gradients)) {
      if (operand == argument && gradient) {
        sum = sum ? nn::AddOp::create(builder, loc, sum, gradient).getResult() : gradient;
      }
    }
    has.push_back(static_cast<bool>(sum));
    if (sum) {
      results.push_back(sum);
    }
  }
  terminator->setOperands(results);
  function.setType(FunctionType::get(module.getContext(), function.getBody().front().getArgumentTypes(), ValueRange(results).getTypes()));
  return has;
}

Tensor drawTensor(const Operand &operand, RankedTensorType type, std::mt19937_64 &generator) {
  Tensor tensor = reference::randomTensor(type, generator, /*intLimit=*/1);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    double unit = (generator() >> 11) * 0x1p-53;
    double value = operand.low + (operand.high - operand.low) * unit;
    if (!tensor.isFloat()) {
      int64_t span = static_cast<int64_t>(operand.high - operand.low) + 1;
      tensor.setInt(i, static_cast<int64_t>(operand.low) + static_cast<int64_t>(generator() % span));
    } else {
      tensor.setFloat(i, std::abs(value - operand.kink) < 0.01 ? value + 0.05 : value);
    }
  }
  return tensor;
}

// Returns sum(weights * f(inputs)).
double weighted(ModuleOp module, ArrayRef<Tensor> inputs, const Tensor &weights) {
  Tensor result = run(module, "f", inputs).front();
  double sum = 0;
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    sum += weights.getFloat(i) * result.getFloat(i);
  }
  return sum;
}

} // namespace

TEST_CASE("gradients of all ops agree with central differences", "[reference][gradient]") {
  uint64_t seed = testSeed() + GENERATE(0u, 1u, 2u, 3u);
  for (const Case &c : makeCases(seed)) {
    INFO("seed " << seed << ", " << c.name << ": " << c.op);
    OwningOpRef<ModuleOp> module = parse(moduleText(c));
    std::vector<bool> has = addGradientFunction(*module);
    REQUIRE(succeeded(module->verify()));
    std::mt19937_64 generator(seed);
    auto function = module->lookupSymbol<func::FuncOp>("f");
    std::vector<Tensor> inputs;
    for (auto [operand, type] : llvm::zip_equal(c.operands, reference::globalArgumentTypes(function))) {
      inputs.push_back(drawTensor(operand, type, generator));
    }
    Tensor weights = reference::randomTensor(cast<RankedTensorType>(function.getResultTypes()[0]), generator, /*intLimit=*/1);
    std::vector<Tensor> gradientInputs = inputs;
    gradientInputs.push_back(weights);
    std::vector<Tensor> gradients = run(*module, "gradient", gradientInputs);
    size_t next = 0;
    for (size_t a = 0; a < inputs.size(); ++a) {
      if (!inputs[a].isFloat() || c.operands[a].isFixed) {
        CHECK_FALSE(has[a]);
        continue;
      }
      for (int64_t i = 0; i < inputs[a].getNumElements(); ++i) {
        constexpr double kStep = 1e-5;
        std::vector<Tensor> above = inputs, below = inputs;
        above[a].setFloat(i, inputs[a].getFloat(i) + kStep);
        below[a].setFloat(i, inputs[a].getFloat(i) - kStep);
        double expected = (weighted(*module, above, weights) - weighted(*module, below, weights)) / (2 * kStep);
        double actual = has[a] ? gradients[next].getFloat(i) : 0;
        // Truncation of the difference is O(step^2) = 1e-10 times a third derivative, rounding 1e-16 / step = 1e-11.
        CHECK(actual == Approx(expected).epsilon(1e-6).margin(1e-7));
      }
      next += has[a];
    }
    CHECK(next == gradients.size());
  }
}

// On inputs that bf16 holds, the gradients in bf16 are those in f64 but for the rounding of results (2^-9 of their size) and of what the
// formulas subtract them from.
TEST_CASE("gradients in bf16 and f16 are those in f64, rounded", "[reference][gradient][narrow]") {
  uint64_t seed = testSeed();
  for (const Case &c : makeCases(seed)) {
    for (StringRef element : {"bf16", "f16"}) {
      INFO("seed " << seed << ", " << c.name << " in " << element.str() << ": " << c.op);
      std::string text = moduleText(c);
      size_t ofWeights = text.find("f64", text.find("weights = ")); // those of nn.resample are f64 for elements of any type
      for (size_t at = text.rfind("f64"); at != std::string::npos; at = at == 0 ? at - 1 : text.rfind("f64", at - 1)) {
        if (at != ofWeights) {
          text.replace(at, 3, element.str());
        }
      }
      if (!c.widened.empty()) {
        text = replaceAll(text, replaceElement(c.widened, element), replaceElement(c.widened, "f32"));
      }
      OwningOpRef<ModuleOp> exact = parse(moduleText(c)), narrow = parse(text);
      std::vector<bool> has = addGradientFunction(*exact);
      REQUIRE(addGradientFunction(*narrow) == has);
      REQUIRE(succeeded(narrow->verify()));
      std::mt19937_64 generator(seed);
      std::vector<Tensor> exactInputs, narrowInputs;
      auto types = reference::globalArgumentTypes(narrow->lookupSymbol<func::FuncOp>("gradient"));
      for (auto [i, type] : llvm::enumerate(types)) {
        narrowInputs.push_back(drawTensor(i < c.operands.size() ? c.operands[i] : Operand{"", -1, 1}, type, generator));
        exactInputs.push_back(narrowInputs.back());
        if (narrowInputs.back().isFloat()) {
          exactInputs.back() = Tensor(type.clone(Float64Type::get(&context())));
          for (int64_t k = 0; k < type.getNumElements(); ++k) {
            exactInputs.back().setFloat(k, narrowInputs.back().getFloat(k));
          }
        }
      }
      std::vector<Tensor> expected = run(*exact, "gradient", exactInputs), actual = run(*narrow, "gradient", narrowInputs);
      for (auto [x, y] : llvm::zip_equal(expected, actual)) {
        REQUIRE((element == "bf16" ? y.getType().getElementType().isBF16() : y.getType().getElementType().isF16()));
        for (int64_t i = 0; i < x.getNumElements(); ++i) {
          CHECK(y.getFloat(i) == Approx(x.getFloat(i)).epsilon(0.02).margin(0.02));
        }
      }
    }
  }
}

TEST_CASE("every op with a gradient has a case", "[reference][gradient]") {
  std::set<std::string> tested = {"nn.repeat"}; // repeat_test.cpp
  for (const Case &c : makeCases(testSeed())) {
    tested.insert(c.op.substr(0, c.op.find(' ')));
  }
  for (RegisteredOperationName name : context().getRegisteredOperationsByDialect("nn")) {
    if (name.hasInterface<GradientOpInterface>()) {
      INFO(name.getStringRef().str());
      CHECK(tested.count(name.getStringRef().str()) == 1);
    }
  }
}

} // namespace ashlar::test::gradient_test

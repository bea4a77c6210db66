// SPDX-License-Identifier: Apache-2.0
//
// Attention and what models put beside it, in matrix products, a softmax and element-wise ops. Heads are a dim of their own wherever
// something is computed and no op mixes samples or heads, so that a split of either holds through all of it.

#include "compiler/frontend/body.h"
#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns input `index`, (batch, sequence, heads * size), as (batch, sequence, heads, size).
Value splitHeads(Node &node, size_t index, StringRef headsName, int64_t heads) {
  RankedTensorType type = node.inputType(index);
  if (type.getRank() != 3 || heads < 1 || type.getDimSize(2) % heads != 0) {
    node.fail("input " + Twine(index) + " of " + describeTensor(type) + " is not (batch, sequence, heads * size) with attribute \"" +
              headsName + "\" " + Twine(heads));
  }
  return reshape(node, node.input(index), {type.getDimSize(0), type.getDimSize(1), heads, type.getDimSize(2) / heads});
}

// Returns input `index` as (batch, heads, sequence, size), as which it may be given.
Value readHeads(Node &node, size_t index, StringRef headsName) {
  RankedTensorType type = node.inputType(index);
  bool isSplit = type.getRank() == 4;
  int64_t heads = node.getInt(headsName, isSplit ? type.getDimSize(1) : 0);
  if (isSplit && heads == type.getDimSize(1)) {
    return node.input(index);
  }
  return transpose(node, splitHeads(node, index, headsName, heads), {0, 2, 1, 3});
}

// Puts a cache, input `index`, before keys or values.
Value afterPast(Node &node, size_t index, Value now) {
  RankedTensorType past = node.inputType(index), type = typeOf(now);
  SmallVector<int64_t> shape(type.getShape());
  shape[2] = past.getRank() == 4 ? past.getDimSize(2) : 0;
  if (past != type.clone(shape)) {
    node.fail("input " + Twine(index) + " of " + describeTensor(past) + " cannot stand before " + describeTensor(type));
  }
  shape[2] = joinedSize(shape[2], type.getDimSize(2));
  node.checkSize(shape, type.getElementType());
  return node.create<nn::ConcatOp>(ValueRange{node.input(index), now}, /*dim=*/2);
}

// A product for each head of lhs, (batch, heads, rows, m). Heads that share one of rhs are rows of one product.
Value multiplyHeads(const Node &node, Value lhs, Value rhs, bool transposeRhs) {
  SmallVector<int64_t> shape(shapeOf(lhs));
  int64_t shared = shapeOf(rhs)[1];
  Value rows = reshape(node, lhs, {shape[0], shared, shape[1] / shared * shape[2], shape[3]});
  Value product = node.create<nn::MatMulOp>(rows, rhs, /*transpose_a=*/false, transposeRhs);
  shape[3] = shapeOf(product)[3];
  return reshape(node, product, shape);
}

class Attention {
public:
  explicit Attention(Node &node) : node(node) {
    query = readHeads(node, 0, "q_num_heads");
    key = readHeads(node, 1, "kv_num_heads");
    value = readHeads(node, 2, "kv_num_heads");
    isBySample = node.getOpset() >= 24 && node.hasInput(6);
    checkInputs();
    if (node.isGiven(4)) {
      past = node.inputType(4).getRank() == 4 ? node.inputType(4).getDimSize(2) : 0;
      key = afterPast(node, 4, key);
      value = afterPast(node, 5, value);
    }
    batch = shapeOf(query)[0];
    queries = shapeOf(query)[2];
    keys = shapeOf(key)[2];
    if (keys == 0) {
      node.fail("has no keys");
    }
  }

  void build() {
    node.setResult(0, joinHeads(multiplyHeads(node, probabilities(), value, /*transposeRhs=*/false)));
    setPresent(1, key);
    setPresent(2, value);
  }

private:
  void checkInputs() {
    RankedTensorType q = typeOf(query), k = typeOf(key), v = typeOf(value);
    Type element = q.getElementType();
    bool fit = node.inputType(1).getRank() == node.inputType(0).getRank() && node.inputType(2).getRank() == node.inputType(0).getRank() &&
               q.getDimSize(0) == k.getDimSize(0) && q.getDimSize(3) == k.getDimSize(3) && k.getDimSize(1) > 0 &&
               q.getDimSize(1) % k.getDimSize(1) == 0 && k.getShape().drop_back() == v.getShape().drop_back() &&
               k.getElementType() == element && v.getElementType() == element;
    if (!fit) {
      node.fail("Q of " + describeTensor(node.inputType(0)) + ", K of " + describeTensor(node.inputType(1)) + " and V of " +
                describeTensor(node.inputType(2)) + " do not fit; as (batch, heads, sequence, size) or (batch, sequence, heads * size) " +
                "they have one batch and one element type, Q and K one size, K and V as many heads, which divide Q's");
    }
    if (node.hasInput(4) != node.hasInput(5) || (node.isGiven(4) && isBySample)) {
      node.fail("inputs \"past_key\" and \"past_value\" come together, and without \"nonpad_kv_seqlen\"");
    }
  }

  Value index(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) const {
    return node.create<nn::IndexOp>(RankedTensorType::get(shape, node.builder().getI64Type()), strides);
  }

  // Returns the number of keys of each sample that are no padding, in a shape whose first dim is the batch.
  Value keysOfSample(ArrayRef<int64_t> shape) const {
    RankedTensorType type = node.inputType(6);
    auto expected = RankedTensorType::get({batch}, node.builder().getI64Type());
    if (type != expected) {
      node.fail("input \"nonpad_kv_seqlen\" of " + describeTensor(type) + " is not " + describeTensor(expected));
    }
    return node.create<nn::BroadcastOp>(type.clone(shape), node.input(6), ArrayRef<int64_t>{0});
  }

  // Narrows `visible` down.
  void restrict(Value keep) {
    if (visible) {
      auto [lhs, rhs] = broadcastPair(node, visible, keep);
      keep = node.create<nn::AndOp>(lhs, rhs);
    }
    visible = keep;
  }

  // Query i stands at i + offset: after the keys of the past, or at the end of those of its sample that are no padding. It sees the keys
  // from `left` before to `right` behind that place.
  void restrictToWindow() {
    constexpr int64_t kMost = int64_t{1} << 48; // any distance
    const bool hasWindow = node.getOpset() >= 25;
    int64_t left = hasWindow ? node.getInt("left_window_size", -1) : -1, right = hasWindow ? node.getInt("right_window_size", -1) : -1;
    if (left < -1 || right < -1) {
      node.fail("attributes \"left_window_size\" " + Twine(left) + " and \"right_window_size\" " + Twine(right) +
                " are sizes, or -1 for no bound");
    }
    right = node.getInt("is_causal", 0) != 0 ? 0 : std::min(right, kMost);
    left = std::min(left, kMost);
    if (left >= 0 || right >= 0) {
      Shape shape = isBySample ? Shape{batch, 1, queries, keys} : Shape{queries, keys};
      Shape strides = isBySample ? Shape{0, 0, -1, 1} : Shape{-1, 1};
      Value distance = index(shape, strides);
      distance = isBySample ? node.create<nn::SubOp>(distance, keysOfSample(shape)).getResult() : distance;
      int64_t offset = isBySample ? -queries : past;
      if (right >= 0) {
        restrict(compare(node, nn::Predicate::Le, distance, static_cast<double>(offset + right)));
      }
      if (left >= 0) {
        restrict(compare(node, nn::Predicate::Ge, distance, static_cast<double>(offset - left)));
        mayHideAll |= isBySample || past + queries - left > keys;
      }
    }
    if (isBySample) {
      Shape shape = {batch, 1, 1, keys};
      restrict(compare(node, nn::Predicate::Lt, index(shape, {0, 0, 0, 1}), keysOfSample(shape)));
      mayHideAll = true;
    }
  }

  // Returns attn_mask with a last dim of all keys: those that it leaves out are hidden.
  Value readMask(ArrayRef<int64_t> scores) {
    RankedTensorType type = node.inputType(3);
    bool isBool = type.getElementType().isInteger(1);
    if (!isBool && type.getElementType() != typeOf(query).getElementType()) {
      node.fail("attn_mask of " + describeTensor(type) + " is neither of bool nor of the type of Q, " + describeTensor(node.inputType(0)));
    }
    Value mask = node.input(3);
    if (int64_t missing = type.getRank() > 0 ? keys - type.getShape().back() : 0; missing > 0) {
      SmallVector<int64_t> rest(type.getShape());
      rest.back() = missing;
      Value hidden = splatConstant(node, type.clone(rest), isBool ? 0 : -kInfinity);
      mask = node.create<nn::ConcatOp>(ValueRange{mask, hidden}, /*dim=*/type.getRank() - 1);
    }
    if (typeOf(mask).getRank() == 0 || ArrayRef<int64_t>(broadcastShapes(node, shapeOf(mask), scores)) != scores) {
      node.fail("attn_mask of " + describeTensor(type) + " does not fit scores of " + describeTensor(typeOf(query).clone(scores)));
    }
    mayHideAll = true;
    return mask;
  }

  // Returns what is added to the scores, -infinity for keys that a query does not see, in a shape that broadcasts to theirs; null: nothing.
  Value readBias(ArrayRef<int64_t> scores) {
    restrictToWindow();
    Value bias;
    if (node.hasInput(3)) {
      Value mask = readMask(scores);
      typeOf(mask).getElementType().isInteger(1) ? restrict(mask) : void(bias = mask);
    }
    if (!visible) {
      return bias;
    }
    auto type = RankedTensorType::get(shapeOf(visible), typeOf(query).getElementType());
    if (bias) {
      type = type.clone(broadcastShapes(node, shapeOf(bias), shapeOf(visible)));
      visible = broadcastTo(node, visible, type.getShape());
    }
    Value shown = bias ? broadcastTo(node, bias, type.getShape()) : splatConstant(node, type, 0);
    return node.create<nn::SelectOp>(type, visible, shown, splatConstant(node, type, -kInfinity));
  }

  Value addBias(Value scores, Value bias) const {
    return bias ? node.create<nn::AddOp>(scores, broadcastTo(node, bias, shapeOf(scores))).getResult() : scores;
  }

  // softmax(softcap(scale * query * key) + bias). A query that sees no key gets zeros: its bias is taken out before the softmax, so that
  // no gradient comes from there either.
  Value probabilities() {
    RankedTensorType type = typeOf(query);
    double scale = node.getFloat("scale", 1 / std::sqrt(static_cast<double>(type.getDimSize(3)))), softcap = node.getFloat("softcap", 0);
    int64_t mode = node.getInt("qk_matmul_output_mode", 0);
    if (softcap < 0 || mode < 0 || mode > 3) {
      node.fail("attributes \"softcap\" " + std::to_string(softcap) + " and \"qk_matmul_output_mode\" " + Twine(mode) +
                " are not at least 0 and one of 0, 1, 2, 3");
    }
    Value scaled = node.create<nn::MulOp>(query, splatConstant(node, type, scale));
    Value scores = multiplyHeads(node, scaled, key, /*transposeRhs=*/true), shown = scores;
    if (softcap > 0) {
      Value cap = splatConstant(node, typeOf(scores), softcap);
      scores = node.create<nn::MulOp>(node.create<nn::TanhOp>(node.create<nn::DivOp>(scores, cap)), cap);
    }
    type = typeOf(scores);
    Value bias = readBias(type.getShape()), isHidden;
    if (node.hasResult(3)) {
      shown = mode == 0 ? shown : mode == 1 ? scores : addBias(scores, bias);
    }
    if (mayHideAll) {
      int64_t last = typeOf(bias).getRank() - 1;
      SmallVector<int64_t> shape(shapeOf(bias));
      shape.back() = 1;
      Value largest = reshape(node, reduce(node, Reduction::Max, bias, {last}), shape);
      isHidden = compare(node, nn::Predicate::Eq, largest, -kInfinity);
      bias =
          node.create<nn::SelectOp>(bias.getType(), broadcastTo(node, isHidden, shapeOf(bias)), splatConstant(node, typeOf(bias), 0), bias);
    }
    Value softmax = node.create<nn::SoftmaxOp>(convertTo(node, addBias(scores, bias), softmaxElement(type.getElementType())));
    softmax = convertTo(node, softmax, type.getElementType());
    if (isHidden) {
      softmax = node.create<nn::SelectOp>(type, broadcastTo(node, isHidden, type.getShape()), splatConstant(node, type, 0), softmax);
    }
    node.setResult(3, mode == 3 ? softmax : shown);
    return softmax;
  }

  // Returns the element type that the softmax is computed in.
  Type softmaxElement(Type byDefault) const {
    Type element = node.getElementType("softmax_precision", byDefault);
    if (!isa<FloatType>(element)) {
      node.fail("attribute \"softmax_precision\" is " + elementName(element) + ", which is no float");
    }
    return element;
  }

  // Returns (batch, heads, sequence, size) in the form that the inputs have.
  Value joinHeads(Value heads) const {
    if (node.inputType(0).getRank() == 4) {
      return heads;
    }
    Value packed = transpose(node, heads, {0, 2, 1, 3});
    ArrayRef<int64_t> shape = shapeOf(packed);
    return reshape(node, packed, {shape[0], shape[1], shape[2] * shape[3]});
  }

  void setPresent(size_t index, Value present) {
    present == node.input(index) ? node.aliasResult(index, index) : node.setResult(index, present);
  }

  Node &node;
  Value query, key, value; // (batch, heads, sequence, size), keys and values with the past
  int64_t past = 0, batch, queries, keys;
  bool isBySample = false; // keys at the end of a sample are padding
  Value visible;           // which keys a query may see, in a shape that broadcasts to the scores; null: all
  bool mayHideAll = false; // from some query
};

void importAttention(Node &node) {
  Attention(node).build();
}

// A table of RotaryEmbedding, as (batch, sequence, half), either of the first two perhaps 1: the rows at position_ids, or given so.
Value readRotaryTable(Node &node, size_t index, int64_t batch, int64_t sequence, int64_t half) {
  Value table = node.input(index);
  if (node.hasInput(3)) {
    RankedTensorType positions = node.inputType(3);
    if (!positions.getElementType().isInteger(64) || positions.getShape() != ArrayRef({batch, sequence})) {
      node.fail("position_ids of " + describeTensor(positions) + " are not (batch, sequence), " +
                describeTensor(positions.clone({batch, sequence})));
    }
    if (typeOf(table).getRank() == 2) {
      table = node.create<nn::GatherOp>(table, node.input(3));
    }
  }
  RankedTensorType type = typeOf(table), x = node.inputType(0);
  if (type.getRank() != 3 || (type.getDimSize(0) != batch && type.getDimSize(0) != 1) || type.getDimSize(1) != sequence ||
      type.getDimSize(2) != half || type.getElementType() != x.getElementType()) {
    node.fail("input " + Twine(index) + " of " + describeTensor(node.inputType(index)) + " is no table for " + describeTensor(x) +
              "; it is (batch, sequence, " + Twine(half) + "), or with position_ids (positions, " + Twine(half) + ")");
  }
  return table;
}

// Rotates pairs of elements, (x1, x2) to (cos x1 - sin x2, sin x1 + cos x2): neighbours, or those half of the rotated elements apart.
void importRotaryEmbedding(Node &node) {
  RankedTensorType given = node.inputType(0);
  bool isSplit = given.getRank() == 4;
  int64_t heads = node.getInt("num_heads", isSplit ? given.getDimSize(1) : 0);
  Value x = isSplit ? node.input(0) : splitHeads(node, 0, "num_heads", heads);
  const SmallVector<int64_t> shape(shapeOf(x));
  const int64_t sequenceDim = isSplit ? 2 : 1, size = shape[3];
  if (isSplit && heads != shape[1]) {
    node.fail("attribute \"num_heads\" is " + Twine(heads) + " but X is " + describeTensor(given));
  }
  int64_t rotated = node.getInt("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? size : rotated;
  if (rotated < 2 || rotated > size || rotated % 2 != 0) {
    node.fail("rotates " + Twine(rotated) + " of the " + Twine(size) + " elements of a head, X being " + describeTensor(given) +
              "; the number has to be even");
  }
  const bool isInterleaved = node.getInt("interleaved", 0) != 0;
  SmallVector<int64_t> halfShape(shape);
  halfShape[3] = rotated / 2;
  auto tableOf = [&](size_t index) {
    Value table = readRotaryTable(node, index, shape[0], shape[sequenceDim], halfShape[3]);
    SmallVector<int64_t> withHeads(shapeOf(table));
    withHeads.insert(withHeads.begin() + (isSplit ? 1 : 2), 1);
    return broadcastTo(node, reshape(node, table, withHeads), halfShape);
  };
  Value cos = tableOf(1), sin = tableOf(2);
  Value pairs = sliceAlong(node, x, 3, 0, rotated), x1, x2;
  if (isInterleaved) {
    SmallVector<int64_t> pairShape(halfShape);
    pairShape.push_back(2);
    pairs = reshape(node, pairs, pairShape);
    x1 = reshape(node, sliceAlong(node, pairs, 4, 0, 1), halfShape);
    x2 = reshape(node, sliceAlong(node, pairs, 4, 1, 2), halfShape);
  } else {
    x1 = sliceAlong(node, pairs, 3, 0, rotated / 2);
    x2 = sliceAlong(node, pairs, 3, rotated / 2, rotated);
  }
  Value y1 = node.create<nn::SubOp>(node.create<nn::MulOp>(cos, x1), node.create<nn::MulOp>(sin, x2));
  Value y2 = node.create<nn::AddOp>(node.create<nn::MulOp>(sin, x1), node.create<nn::MulOp>(cos, x2));
  SmallVector<Value> parts = {y1, y2};
  if (isInterleaved) {
    SmallVector<int64_t> oneShape(halfShape), rotatedShape(shape);
    oneShape.push_back(1);
    rotatedShape[3] = rotated;
    Value both = node.create<nn::ConcatOp>(ValueRange{reshape(node, y1, oneShape), reshape(node, y2, oneShape)}, /*dim=*/4);
    parts = {reshape(node, both, rotatedShape)};
  }
  if (rotated < size) {
    parts.push_back(sliceAlong(node, x, 3, rotated, size));
  }
  Value y = parts.size() == 1 ? parts.front() : node.create<nn::ConcatOp>(parts, /*dim=*/3).getResult();
  node.setResult(0, reshape(node, y, given.getShape()));
}

// The nodes of attention with functions of its scores and probabilities, which are graphs of the node.
class FlexAttention {
public:
  explicit FlexAttention(Node &node) : node(node), prefix(node.uniqueName().str()) {}

  std::vector<onnx::NodeProto> build() {
    checkShapes();
    const bool isWide = node.inputType(0).getElementType().isF64();
    const int64_t precision = node.getInt("softmax_precision", isWide ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT);
    const double headSize = static_cast<double>(node.inputType(0).getDimSize(3)), scale = node.getFloat("scale", 1 / std::sqrt(headSize));
    if (scale < 0) {
      node.fail("attribute \"scale\" is " + std::to_string(scale) + ", whose root ONNX multiplies by; negate Q");
    }
    onnx::AttributeProto *root = append("Constant", {}, "root32").add_attribute();
    root->set_name("value_float");
    root->set_type(onnx::AttributeProto::FLOAT);
    root->set_f(std::sqrt(static_cast<float>(scale)));
    append("CastLike", {name("root32"), query()}, "root");
    append("Mul", {query(), name("root")}, "q");
    append("Mul", {shareHeads(1), name("root")}, "k");
    onnx::AttributeProto *order = append("Transpose", {name("k")}, "kt").add_attribute();
    order->set_name("perm");
    order->set_type(onnx::AttributeProto::INTS);
    for (int64_t dim : {0, 1, 3, 2}) {
      order->add_ints(dim);
    }
    append("MatMul", {name("q"), name("kt")}, "products");
    setInt(append("Cast", {name("products")}, "scores"), "to", precision);
    setInt(append("Softmax", {call("score_mod", name("scores"))}, "probabilities"), "axis", 3);
    const std::string weights = call("prob_mod", name("probabilities"));
    setInt(append("Cast", {shareHeads(2)}, "v"), "to", precision);
    append("MatMul", {weights, name("v")}, "sums");
    nodes.push_back(makeNode("CastLike", {name("sums"), query()}, {node.resultName(0).str()}, node.getPath()));
    return std::move(nodes);
  }

private:
  std::string name(StringRef value) const { return (prefix + "/" + value).str(); }
  std::string query() const { return node.inputName(0).str(); }

  onnx::NodeProto &append(StringRef op, std::vector<std::string> inputs, StringRef value) {
    return nodes.emplace_back(makeNode(op, std::move(inputs), {name(value)}, node.getPath()));
  }

  void checkShapes() const {
    for (size_t i = 0; i < 3; ++i) {
      if (!node.hasInput(i) || node.inputType(i).getRank() != 4) {
        node.fail("input " + Twine(i) + " is not (batch, heads, sequence, size)");
      }
    }
    ArrayRef<int64_t> q = node.inputType(0).getShape(), k = node.inputType(1).getShape(), v = node.inputType(2).getShape();
    if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] || k[1] == 0 || q[1] % k[1] != 0) {
      node.fail("Q, K and V of " + describeTensor(node.inputType(0)) + ", " + describeTensor(node.inputType(1)) + " and " +
                describeTensor(node.inputType(2)) + " do not fit each other");
    }
  }

  // Returns K or V with a head for each of Q's: head h is that of h / (heads of Q / heads of K).
  std::string shareHeads(size_t index) {
    const std::string input = node.inputName(index).str();
    ArrayRef<int64_t> shape = node.inputType(index).getShape();
    const int64_t heads = node.inputType(0).getDimSize(1), group = heads / shape[1];
    if (group == 1) {
      return input;
    }
    const std::string what = "of_" + std::to_string(index);
    auto ints = [&](StringRef value, const std::vector<int64_t> &list) {
      nodes.push_back(makeInts(name(value), list, node.getPath()));
      return name(value);
    };
    const std::string split = ints(what + "/split", {shape[0], shape[1], 1, shape[2], shape[3]});
    const std::string repeated = ints(what + "/repeated", {shape[0], shape[1], group, shape[2], shape[3]});
    const std::string joined = ints(what + "/joined", {shape[0], heads, shape[2], shape[3]});
    append("Reshape", {input, split}, what + "/groups");
    append("Expand", {name(what + "/groups"), repeated}, what + "/all");
    append("Reshape", {name(what + "/all"), joined}, what + "/heads");
    return name(what + "/heads");
  }

  // Returns what a function makes of a value: the value where the node does not have it.
  std::string call(StringRef function, const std::string &value) {
    onnx::GraphProto *body = node.getGraph(function);
    if (!body) {
      return value;
    }
    if (body->input_size() != 1 || body->output_size() != 1) {
      node.fail("\"" + function + "\" has " + Twine(body->input_size()) + " inputs and " + Twine(body->output_size()) +
                " outputs, not one of each");
    }
    Names names;
    names[body->input(0).name()] = value;
    std::vector<onnx::NodeProto> opened = openGraph(*body, name(function), node.getPath(), names);
    node.spend(static_cast<int64_t>(opened.size()));
    std::move(opened.begin(), opened.end(), std::back_inserter(nodes));
    return names[body->output(0).name()];
  }

  Node &node;
  std::string prefix;
  std::vector<onnx::NodeProto> nodes;
};

std::vector<onnx::NodeProto> expandFlexAttention(Node &node) {
  return FlexAttention(node).build();
}

// Tables of angles are set, not trained.
constexpr unsigned kTables = 1 << 1 | 1 << 2;

constexpr RegistryRow kAttentionRows[] = {
    {"Attention", importAttention, Accepts::Floats},
    {"RotaryEmbedding", importRotaryEmbedding, Accepts::Floats, kTables},
    {"ai.onnx.preview.FlexAttention", nullptr, Accepts::Floats, 0, /*draws=*/false, expandFlexAttention}};

} // namespace

ArrayRef<RegistryRow> attentionRows() {
  return kAttentionRows;
}

} // namespace ashlar::frontend

// SPDX-License-Identifier: Apache-2.0
//
// LinearAttention: a state that each step adds to, in chunks of steps, so that the program has ops for chunks and not for steps.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/scan.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include <cmath>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Chunks come one after the other; the elements of a key that decay by themselves make a tensor of length^2 * size a chunk.
constexpr int64_t kMostChunks = 128, kMostLength = 64, kMostLengthByElement = 16;

// S = e^decay S + key (x) update and output = scale * query S, one step after the other. The update is the value, or by a delta rule beta
// times the difference between it and key S.
//
// In a chunk, with S the state before it, w(i) the decay from there to step i, and w(i, j) that from step j to step i:
//   output(i) = query(i) w(i) S + sum over j <= i of (query(i) w(i, j) key(j)) update(j)
//   update(i) = value(i), or by a delta rule
//   update(i) + beta(i) sum over j < i of (key(i) w(i, j) key(j)) update(j) = beta(i) (value(i) - key(i) w(i) S)
// The second is a triangular system, whose inverse does not depend on S. So all chunks are computed side by side, but for S, which takes
// two ops a chunk. No decay is divided by another one: they may be 0.
class LinearAttention {
public:
  explicit LinearAttention(Node &node) : node(node) {
    std::string rule = node.getString("update_rule", "gated_delta");
    const bool hasDecay = rule == "gated" || rule == "gated_delta";
    isDelta = rule == "delta" || rule == "gated_delta";
    if (!hasDecay && !isDelta && rule != "linear") {
      node.fail("attribute \"update_rule\" is \"" + rule + "\"; one of linear, gated, delta, gated_delta");
    }
    if (node.hasInput(4) != hasDecay || node.hasInput(5) != isDelta) {
      node.fail("update rule \"" + rule + "\" takes " + (hasDecay ? "a" : "no") + " decay and " + (isDelta ? "a" : "no") + " beta");
    }
    const int64_t heads = node.getInt("q_num_heads", 0);
    shared = node.getInt("kv_num_heads", 0);
    if (heads < 1 || shared < 1 || heads % shared != 0) {
      node.fail("attribute \"kv_num_heads\" " + Twine(shared) + " does not divide \"q_num_heads\" " + Twine(heads));
    }
    node.getInt("chunk_size", 0); // a hint
    batch = node.inputType(0).getRank() == 3 ? node.inputType(0).getDimSize(0) : 0;
    steps = node.inputType(0).getRank() == 3 ? node.inputType(0).getDimSize(1) : 0;
    query = readSteps(0, shared, heads / shared);
    key = readSteps(1, shared, 1);
    value = readSteps(2, shared, 1);
    if (shapeOf(query).back() != shapeOf(key).back()) {
      node.fail("query of " + describeTensor(node.inputType(0)) + " and key of " + describeTensor(node.inputType(1)) +
                " have heads of different sizes");
    }
    decay = hasDecay ? readFactor(4, shapeOf(key).back()) : Value();
    beta = isDelta ? readFactor(5, /*size=*/1) : Value();
    decaysByElement = decay && shapeOf(decay).back() > 1;
    chooseChunks();
  }

  void build() {
    double scale = node.getFloat("scale", 0);
    scale = scale == 0 ? 1 / std::sqrt(static_cast<double>(shapeOf(query).back())) : scale;
    query = inChunks(multiply(query, splatConstant(node, typeOf(query), scale)));
    key = inChunks(key);
    value = inChunks(value);
    Value state = readState();
    if (decay) {
      decay = node.create<nn::ExpOp>(inChunks(decay));
      buildDecays();
    }
    Value updates = rowsOf(value), fromState;
    if (isDelta) {
      beta = inChunks(beta);
      Value inverse = invert(scaled(products(key), rowsOf(beta)));
      updates = product(inverse, rowsOf(scaled(value, beta)));
      fromState = product(inverse, rowsOf(scaled(scaled(key, sinceStart), beta)));
    }
    Value keys = rowsOf(scaled(key, untilEnd));
    Value before = buildStates(state, product(keys, updates, /*transposeLhs=*/true),
                               fromState ? product(keys, fromState, /*transposeLhs=*/true) : Value());
    if (fromState) {
      updates = node.create<nn::SubOp>(updates, product(fromState, before));
    }
    Value output = node.create<nn::AddOp>(product(rowsOf(scaled(query, sinceStart)), before), product(products(query), updates));
    setResults(output, state);
  }

private:
  using Shape = SmallVector<int64_t>;

  // Returns input `index`, (batch, steps, heads * rows * size), as (batch, heads, steps, rows, size) of f32.
  Value readSteps(size_t index, int64_t heads, int64_t rows) {
    RankedTensorType type = node.inputType(index);
    int64_t parts = heads * rows;
    if (type.getRank() != 3 || type.getDimSize(0) != batch || type.getDimSize(1) != steps || type.getDimSize(2) % parts != 0 ||
        !isa<FloatType>(type.getElementType())) {
      node.fail("input " + Twine(index) + " of " + describeTensor(type) + " is not (batch, steps, " + Twine(parts) +
                " * size), query being " + describeTensor(node.inputType(0)));
    }
    Value split = reshape(node, node.input(index), {batch, steps, heads, rows, type.getDimSize(2) / parts});
    return convertTo(node, transpose(node, split, {0, 2, 1, 3, 4}), node.builder().getF32Type());
  }

  // Returns a factor of 1 or `size` elements a head; beta may be of all heads.
  Value readFactor(size_t index, int64_t size) {
    RankedTensorType type = node.inputType(index);
    bool isOfAll = index == 5 && type.getRank() == 3 && type.getDimSize(2) == 1;
    Value factor = readSteps(index, isOfAll ? 1 : shared, /*rows=*/1);
    if (int64_t given = shapeOf(factor).back(); given != 1 && given != size) {
      node.fail("input " + Twine(index) + " of " + describeTensor(type) + " has " + Twine(given) + " elements a head, not 1" +
                (size == 1 ? "" : " or " + std::to_string(size)));
    }
    return factor;
  }

  // Returns the state before the first step, zeros unless it is given.
  Value readState() {
    auto type = RankedTensorType::get({batch, shared, shapeOf(key).back(), shapeOf(value).back()}, node.builder().getF32Type());
    if (!node.hasInput(3)) {
      stateElement = node.inputType(0).getElementType();
      return splatConstant(node, type, 0);
    }
    RankedTensorType given = node.inputType(3);
    stateElement = given.getElementType();
    if (given.getShape() != type.getShape() || !isa<FloatType>(stateElement)) {
      node.fail("past_state of " + describeTensor(given) + " is not (batch, heads, size of a key, size of a value), " +
                describeTensor(type));
    }
    return convertTo(node, node.input(3), type.getElementType());
  }

  void chooseChunks() {
    const int64_t longest = decaysByElement ? kMostLengthByElement : kMostLength, most = kMostChunks * longest;
    if (steps < 1 || steps > most) {
      node.fail("query of " + describeTensor(node.inputType(0)) + " has " + Twine(steps) + " steps; 1 to " + Twine(most) +
                " are supported" + (decaysByElement ? " where each element of a key decays by itself" : ""));
    }
    chunks = llvm::divideCeil(steps, longest);
    length = llvm::divideCeil(steps, chunks);
  }

  // Returns (batch, heads, steps, rows, size) as (batch, heads, chunks, length, rows, size), with steps of zeros at the end, which change
  // no state.
  Value inChunks(Value x) const {
    Shape shape(shapeOf(x)), none(shape.size(), 0);
    shape[2] = chunks * length;
    if (shape[2] > steps) {
      x = node.create<nn::PadOp>(typeOf(x).clone(shape), x, none, none);
    }
    return reshape(node, x, {shape[0], shape[1], chunks, length, shape[3], shape[4]});
  }

  // The rows of all steps of a chunk.
  Value rowsOf(Value x) const {
    ArrayRef<int64_t> shape = shapeOf(x);
    return reshape(node, x, {shape[0], shape[1], chunks, length * shape[4], shape[5]});
  }

  Value multiply(Value lhs, Value rhs) const { return node.create<nn::MulOp>(lhs, rhs); }

  Value product(Value lhs, Value rhs, bool transposeLhs = false, bool transposeRhs = false) const {
    return node.create<nn::MatMulOp>(lhs, rhs, transposeLhs, transposeRhs);
  }

  // Keeps elements whose step, dim 3, is at least `distance` steps behind that of dim `dim`.
  Value keepLater(Value x, size_t dim, int64_t distance, double other) const {
    Shape strides(shapeOf(x).size(), 0);
    strides[3] = 1;
    strides[dim] = -1;
    Value behind = node.create<nn::IndexOp>(typeOf(x).clone(node.builder().getI64Type()), strides);
    return select(node, compare(node, nn::Predicate::Ge, behind, static_cast<double>(distance)), x, splatConstant(node, typeOf(x), other));
  }

  void buildDecays() {
    Shape shape(shapeOf(decay));
    shape[4] = length;
    between = multiplyUpTo(node, keepLater(broadcastTo(node, decay, shape), /*dim=*/4, /*distance=*/1, /*other=*/1), /*dim=*/3);
    sinceStart = multiplyUpTo(node, decay, /*dim=*/3);
    untilEnd = reshape(node, sliceAlong(node, between, 3, length - 1, length), shapeOf(decay));
  }

  // Multiplies by a factor that is the same along dims of size 1; none is 1.
  Value scaled(Value x, Value factor) const { return factor ? multiply(x, broadcastTo(node, factor, shapeOf(x))) : x; }

  // Returns the products of each row of `lhs` with the key of each step up to its own, as (..., length * rows, length); 0 for later keys.
  Value products(Value lhs) const {
    const int64_t heads = shapeOf(lhs)[1], rows = shapeOf(lhs)[4], size = shapeOf(lhs)[5];
    const Shape shape = {batch, heads, chunks, length, rows, length};
    Value result;
    if (decaysByElement) {
      const Shape all = {batch, heads, chunks, length, rows, length, size};
      auto repeat = [&](Value x, int64_t left, int64_t right) {
        return broadcastTo(node, reshape(node, x, {batch, heads, chunks, left, x == lhs ? rows : 1, right, size}), all);
      };
      Value pairs = multiply(repeat(lhs, length, 1), multiply(repeat(between, length, length), repeat(key, 1, length)));
      result = reduce(node, Reduction::Sum, pairs, {6});
    } else {
      result = reshape(node, product(rowsOf(lhs), rowsOf(key), /*transposeLhs=*/false, /*transposeRhs=*/true), shape);
      Value decays = between ? reshape(node, between, {batch, heads, chunks, length, 1, length}) : Value();
      result = scaled(result, decays);
    }
    return reshape(node, keepLater(result, /*dim=*/5, /*distance=*/0, /*other=*/0), {batch, heads, chunks, length * rows, length});
  }

  // Returns (1 + L)^-1 of matrices of `length` rows, where L is what is below the diagonal. Blocks on the diagonal are inverted, each of
  // two neighbours, of which it is [[A, 0], [-D B A, D]], B being the part of L below the first one. As exact as a substitution: the powers
  // of L could be far larger than the inverse.
  Value invert(Value matrix) const {
    RankedTensorType square = RankedTensorType::get({length, length}, node.builder().getI1Type());
    auto keep = [&](llvm::function_ref<bool(int64_t row, int64_t column)> isKept, Value x, double other) {
      SmallVector<bool> kept;
      for (int64_t place = 0; place < length * length; ++place) {
        kept.push_back(isKept(place / length, place % length));
      }
      Value mask = node.create<nn::ConstantOp>(square, DenseElementsAttr::get(square, kept));
      return select(node, broadcastTo(node, mask, shapeOf(x)), x, splatConstant(node, typeOf(x), other));
    };
    Value one = splatConstant(node, typeOf(matrix), 1);
    Value inverse = keep([](int64_t row, int64_t column) { return row == column; }, one, 0);
    for (int64_t size = 1; size < length; size *= 2) {
      auto isBelow = [&](int64_t row, int64_t column) { return row / size == column / size + 1 && row / size % 2 == 1; };
      Value below = keep(isBelow, matrix, 0);
      inverse = node.create<nn::SubOp>(inverse, size == 1 ? below : product(product(inverse, below), inverse));
    }
    return inverse;
  }

  // Returns the states before all chunks, and leaves the last one in `state`: (decay of the chunk - lost) state + added.
  Value buildStates(Value &state, Value added, Value lost) const {
    auto at = [&](Value x, int64_t chunk) {
      Shape shape(shapeOf(x));
      shape.erase(shape.begin() + 2);
      return reshape(node, sliceAlong(node, x, 2, chunk, chunk + 1), shape);
    };
    Shape shape(shapeOf(state));
    shape.insert(shape.begin() + 2, 1);
    Value decays;
    if (decay) {
      decays = reshape(node, sliceAlong(node, sinceStart, 3, length - 1, length), {batch, shared, chunks, shapeOf(decay).back(), 1});
    }
    SmallVector<Value> before;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      before.push_back(reshape(node, state, shape));
      Value kept = decays ? scaled(state, at(decays, chunk)) : state;
      if (lost) {
        kept = node.create<nn::SubOp>(kept, product(at(lost, chunk), state));
      }
      state = node.create<nn::AddOp>(kept, at(added, chunk));
    }
    return before.size() == 1 ? before.front() : node.create<nn::ConcatOp>(before, /*dim=*/2).getResult();
  }

  void setResults(Value output, Value state) const {
    const int64_t rows = shapeOf(query)[4], size = shapeOf(value)[5];
    output = sliceAlong(node, reshape(node, output, {batch, shared, chunks * length, rows, size}), 2, 0, steps);
    output = reshape(node, transpose(node, output, {0, 2, 1, 3, 4}), {batch, steps, shared * rows * size});
    node.setResult(0, convertTo(node, output, node.inputType(0).getElementType()));
    node.setResult(1, convertTo(node, state, stateElement));
  }

  Node &node;
  bool isDelta, decaysByElement;
  int64_t shared, batch, steps;         // shared: heads of keys, values and the state
  int64_t chunks, length;               // of a chunk
  Value query, key, value, decay, beta; // (batch, shared, chunks, length, rows, size); heads that share a key are rows of the query
  Value sinceStart, untilEnd, between;  // decays, like `decay`; `between` has the later step as `length` and the earlier one as `rows`
  Type stateElement;
};

void importLinearAttention(Node &node) {
  LinearAttention(node).build();
}

constexpr RegistryRow kLinearAttentionRows[] = {{"LinearAttention", importLinearAttention, Accepts::Floats}};

} // namespace

ArrayRef<RegistryRow> linearAttentionRows() {
  return kLinearAttentionRows;
}

} // namespace ashlar::frontend

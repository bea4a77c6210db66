// SPDX-License-Identifier: Apache-2.0
//
// Writes the text of a module, op by op.

#include "test/unit/reference/random_decoder.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <random>
#include <vector>

namespace ashlar::test {
namespace {

using Shape = std::vector<int64_t>;

class Writer {
public:
  explicit Writer(uint64_t seed) : random(seed) {
    batch = pick(1, 2);
    positions = pick(2, 7);
    heads = pick(1, 3);
    keyHeads = chance(3) ? 1 : heads;
    width = 2 * pick(1, 2);
  }

  Decoder write() {
    const std::string ids = type({batch, positions}, "i64");
    std::string x = op({batch, positions, model()}, "nn.gather " + variable({kVocabulary, model()}) + ", %tokens",
                       type({kVocabulary, model()}) + ", " + ids);
    x = add(x, table());
    for (int64_t layers = pick(1, 2); layers > 0; --layers) {
      x = add(x, attention(normalized(x)));
      x = chance(2) ? add(x, feedForward(x)) : x;
      x = chance(3) ? selected(x) : x;
    }
    const std::string logits = product(x, model(), kVocabulary);
    const std::string result = type({batch, positions, kVocabulary});
    return {batch, positions, kVocabulary,
            "module {\n" + variables + "func.func @forward(%tokens: " + ids + " {nn.name = \"tokens\"}) -> (" + result +
                " {nn.name = \"logits\"}) attributes {nn.program = #nn.program<run>} {\n" + body + "  return " + logits + " : " + result +
                "\n}\n}\n"};
  }

private:
  static constexpr int64_t kVocabulary = 5;

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  bool chance(int64_t oneIn) { return pick(1, oneIn) == 1; }
  int64_t model() const { return heads * width; }

  static std::string type(const Shape &shape, const std::string &element = "f64") {
    std::string text = "tensor<";
    for (int64_t size : shape) {
      text += std::to_string(size) + "x";
    }
    return text + element + ">";
  }

  static std::string list(const Shape &numbers) {
    return "[" + llvm::join(llvm::map_range(numbers, [](int64_t n) { return std::to_string(n); }), ", ") + "]";
  }

  // Adds an op with one result; `operands` are its types.
  std::string op(const Shape &shape, const std::string &text, const std::string &operands, const std::string &element = "f64") {
    const std::string name = "%v" + std::to_string(count++);
    body += "  " + name + " = " + text + " : " + operands + " -> " + type(shape, element) + "\n";
    return name;
  }

  std::string same(const Shape &shape, const std::string &text) {
    const std::string result = "%v" + std::to_string(count++);
    body += "  " + result + " = " + text + " : " + type(shape) + "\n";
    return result;
  }

  std::string variable(const Shape &shape) {
    const std::string symbol = "@w" + std::to_string(count++), name = "%v" + std::to_string(count++);
    variables += "nn.variable " + symbol + " trainable : " + type(shape) + " = #nn.normal<0.0 : f64, 0.5 : f64>\n";
    body += "  " + name + " = nn.read " + symbol + " : " + type(shape) + "\n";
    return name;
  }

  Shape whole() const { return {batch, positions, model()}; }

  std::string add(const std::string &a, const std::string &b) { return same(whole(), "nn.add " + a + ", " + b); }

  std::string reshape(const std::string &x, const Shape &from, const Shape &to) { return op(to, "nn.reshape " + x, type(from)); }

  // A table of positions: a variable, or its rows by number, or of more rows than there are positions.
  std::string table() {
    const int64_t kind = pick(0, 2), rows = positions + (kind == 2 ? 3 : 0);
    std::string read = variable({rows, model()});
    if (kind != 0) {
      const std::string numbers = "%v" + std::to_string(count++);
      body += "  " + numbers + " = nn.index [1] : " + type({positions}, "i64") + "\n";
      read = op({positions, model()}, "nn.gather " + read + ", " + numbers, type({rows, model()}) + ", " + type({positions}, "i64"));
    }
    return op(whole(), "nn.broadcast " + read + " dims = [1, 2]", type({positions, model()}));
  }

  std::string normalized(const std::string &x) {
    if (chance(3)) {
      return x;
    }
    const Shape rows{batch, positions};
    std::string sum = op(rows, "nn.reduce sum " + x + " dims = [2]", type(whole()));
    return same(whole(), "nn.sub " + x + ", " + op(whole(), "nn.broadcast " + sum + " dims = [0, 1]", type(rows)));
  }

  // x w, with samples and positions as one dim.
  std::string product(const std::string &x, int64_t in, int64_t out) {
    const Shape rows{batch * positions, in}, results{batch * positions, out};
    std::string flat = reshape(x, {batch, positions, in}, rows);
    std::string made = op(results, "nn.matmul " + flat + ", " + variable({in, out}), type(rows) + ", " + type({in, out}));
    return reshape(made, results, {batch, positions, out});
  }

  std::string feedForward(const std::string &x) {
    std::string hidden = product(x, model(), 6);
    hidden = same({batch, positions, 6}, "nn.tanh " + hidden);
    return product(hidden, 6, model());
  }

  // By bools of each position.
  std::string selected(const std::string &x) {
    std::vector<std::string> bools;
    for (int64_t i = 0; i < positions; ++i) {
      bools.push_back(chance(2) ? "true" : "false");
    }
    const std::string name = "%v" + std::to_string(count++);
    body += "  " + name + " = nn.constant dense<[" + llvm::join(bools, ", ") + "]> : " + type({positions}, "i1") + "\n";
    const std::string wide = op(whole(), "nn.broadcast " + name + " dims = [1]", type({positions}, "i1"), "i1");
    const std::string half = same(whole(), "nn.mul " + x + ", " + x), result = "%v" + std::to_string(count++);
    body += "  " + result + " = nn.select " + wide + ", " + x + ", " + half + " : " + type(whole(), "i1") + ", " + type(whole()) + "\n";
    return result;
  }

  // (batch, positions, heads * width) as (batch, heads, positions, width).
  std::string split(const std::string &x, int64_t count) {
    const Shape inside{batch, positions, count, width}, outside{batch, count, positions, width};
    return op(outside, "nn.transpose " + reshape(x, {batch, positions, count * width}, inside) + " [0, 2, 1, 3]", type(inside));
  }

  // A product with a table of positions, of each head.
  std::string rotated(const std::string &x, int64_t count) {
    const Shape shape{batch, count, positions, width}, half{batch, count, positions, width / 2};
    std::string read = variable({positions, width});
    std::string turned = same(shape, "nn.mul " + x + ", " + op(shape, "nn.broadcast " + read + " dims = [2, 3]", type({positions, width})));
    auto slice = [&](int64_t begin, int64_t end) {
      return op(half,
                "nn.slice " + turned + " " + list({0, 0, 0, begin}) + " to " + list({batch, count, positions, end}) + " by [1, 1, 1, 1]",
                type(shape));
    };
    const std::string first = slice(0, width / 2), last = slice(width / 2, width);
    return op(shape, "nn.concat " + last + ", " + first + " dim = 3", "(" + type(half) + ", " + type(half) + ")");
  }

  // Keys or values that heads share are repeated.
  std::string repeated(const std::string &x) {
    if (keyHeads == heads) {
      return x;
    }
    const Shape one{batch, positions, width}, all{batch, heads, positions, width};
    return op(all, "nn.broadcast " + reshape(x, {batch, 1, positions, width}, one) + " dims = [0, 2, 3]", type(one));
  }

  // Numbers that are added to the scores: of rows and keys, or of one of them.
  std::string mask(Shape &shape) {
    shape = {chance(2) ? batch : 1, chance(2) ? heads : 1, chance(2) ? positions : 1, chance(2) ? positions : 1};
    return variable(shape);
  }

  std::string attention(const std::string &x) {
    const Shape own{batch, heads, positions, width};
    std::string query = split(product(x, model(), model()), heads), key = split(product(x, model(), keyHeads * width), keyHeads);
    if (chance(2)) {
      query = rotated(query, heads);
      key = rotated(key, keyHeads);
    }
    key = repeated(key);
    const std::string value = repeated(split(product(x, model(), keyHeads * width), keyHeads));
    const Shape numbers{1, 1, positions};
    const std::string rows = "%v" + std::to_string(count++), keys = "%v" + std::to_string(count++);
    body += "  " + rows + " = nn.index [0, 0, 1] : " + type(numbers, "i64") + "\n";
    body += "  " + keys + " = nn.index [0, 0, 1] : " + type(numbers, "i64") + "\n";
    Shape maskShape;
    const std::string added = chance(2) ? mask(maskShape) : "";
    const std::string window = chance(3) ? " window = " + std::to_string(pick(1, 3)) : "";
    const std::string how = (added.empty() ? "" : " mask = " + added) + " scale = 5.000000e-01 causal at " + rows + ", " + keys + window;
    const std::string more =
        (added.empty() ? "" : ", " + type(maskShape)) + ", " + type(numbers, "i64") + ", " + type(numbers, "i64") + ")";
    const std::string sums =
        op({batch, heads, positions}, "nn.attention_log_sum " + query + ", " + key + how, "(" + type(own) + ", " + type(own) + more);
    const std::string made = op(own, "nn.attention " + query + ", " + key + ", " + value + ", " + sums + how,
                                "(" + type(own) + ", " + type(own) + ", " + type(own) + ", " + type({batch, heads, positions}) + more);
    const Shape inside{batch, positions, heads, width};
    const std::string joined = reshape(op(inside, "nn.transpose " + made + " [0, 2, 1, 3]", type(own)), inside, whole());
    return product(joined, model(), model());
  }

  std::mt19937_64 random;
  int64_t batch, positions, heads, keyHeads, width, count = 0;
  std::string variables, body;
};

} // namespace

Decoder randomDecoder(uint64_t seed) {
  return Writer(seed).write();
}

} // namespace ashlar::test

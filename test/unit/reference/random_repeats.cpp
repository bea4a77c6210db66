// SPDX-License-Identifier: Apache-2.0
//
// See random_repeats.h.

#include "test/unit/reference/random_repeats.h"

#include <random>
#include <vector>

namespace ashlar::test {

namespace {

constexpr const char *kValue = "tensor<2x3xf64>", *kWeight = "tensor<3x3xf64>";

std::string stackOf(int64_t count) {
  return "tensor<" + std::to_string(count) + "x2x3xf64>";
}

// Writes a training step with repeats, nested to depth 2, whose ops are smooth. Three variables are trained: a weight that all bodies
// capture, a value and a stack; another value and stack are inputs.
class RandomProgram {
public:
  explicit RandomProgram(uint64_t seed) : generator(seed) {}

  std::string write() {
    count = 1 + below(4);
    text = "nn.variable @w trainable : " + std::string(kWeight) + "\nnn.variable @v trainable : " + kValue +
           "\nnn.variable @s trainable : " + stackOf(count) + "\nfunc.func @train_step(%x: " + kValue + ", %xs: " + stackOf(count) +
           ") -> tensor<f64> attributes {nn.program = #nn.program<train_step>} {\n  %w = nn.read @w : " + kWeight +
           "\n  %v = nn.read @v : " + kValue + "\n  %s = nn.read @s : " + stackOf(count) + "\n";
    Scope scope{{"%x", "%v"}, {{"%xs", count}, {"%s", count}}, "%w"};
    for (int64_t i = 0; i < 2 + below(2); ++i) {
      repeat(scope, 1);
    }
    combine(scope, 2);
    std::string sum = "%v";
    for (const std::string &value : scope.values) {
      const std::string next = name();
      text += "  " + next + " = nn.add " + sum + ", " + value + " : " + kValue + "\n";
      sum = next;
    }
    text += "  %bounded = nn.tanh " + sum + " : " + kValue + "\n  %loss = nn.reduce sum %bounded dims = [0, 1] : " + kValue +
            " -> tensor<f64>\n  return %loss : tensor<f64>\n}\n";
    return text;
  }

private:
  // What a block may read: values, stacks of them with their sizes, and the weight.
  struct Scope {
    std::vector<std::string> values;
    std::vector<std::pair<std::string, int64_t>> stacks;
    std::string weight;
  };

  int64_t below(int64_t limit) { return static_cast<int64_t>(generator() % static_cast<uint64_t>(limit)); }
  std::string name() { return "%" + std::string("t") + std::to_string(names++); }
  const std::string &pick(const std::vector<std::string> &from) { return from[below(static_cast<int64_t>(from.size()))]; }

  void add(Scope &scope, const std::string &made, const std::string &op) {
    text += "  " + made + " = nn." + op + "\n";
    scope.values.push_back(made);
  }

  // Adds ops on values.
  void combine(Scope &scope, int64_t ops) {
    const std::string value = kValue, row = "tensor<3xf64>";
    for (int64_t i = 0; i < ops; ++i) {
      const std::string a = pick(scope.values), b = pick(scope.values), made = name();
      switch (below(6)) {
      case 0:
        add(scope, made, "mul " + a + ", " + b + " : " + value);
        break;
      case 1:
        add(scope, made, "tanh " + a + " : " + value);
        break;
      case 2:
        add(scope, made, "sub " + a + ", " + b + " : " + value);
        break;
      case 3: {
        const std::string sum = name();
        text += "  " + sum + " = nn.reduce sum " + a + " dims = [0] : " + value + " -> " + row + "\n";
        add(scope, made, "broadcast " + sum + " dims = [1] : " + row + " -> " + value);
        break;
      }
      default: {
        const std::string product = name();
        const std::string transposed = below(2) ? " transpose_b" : "";
        text += "  " + product + " = nn.matmul " + a + ", " + scope.weight + transposed + " : " + value + ", " + kWeight + " -> " + value +
                "\n";
        add(scope, made, "sigmoid " + product + " : " + value);
      }
      }
    }
  }

  // Writes whether the sum of a value is large, which may be so in some iterations only.
  std::string condition(const Scope &scope) {
    const std::string sum = name(), bound = name(), holds = name();
    text += "  " + sum + " = nn.reduce sum " + pick(scope.values) + " dims = [0, 1] : " + kValue + " -> tensor<f64>\n  " + bound +
            " = nn.constant dense<0.1> : tensor<f64>\n  " + holds + " = nn.compare gt " + sum + ", " + bound +
            " : tensor<f64> -> tensor<i1>\n";
    return holds;
  }

  void repeat(Scope &scope, int64_t depth) {
    std::vector<std::pair<std::string, int64_t>> sliced;
    const std::string holds = below(3) == 0 ? condition(scope) : "";
    for (const auto &stack : scope.stacks) {
      if (stack.second == count && holds.empty() && below(3) > 0) {
        sliced.push_back(stack);
      }
    }
    const int64_t times = !holds.empty() ? 1 : sliced.empty() ? below(4) : count;
    const int64_t carried = holds.empty() ? below(3) : 1 + below(2), stacked = holds.empty() ? 1 + below(2) : 0;
    Scope inside;
    std::string groups, types, results;
    auto enter = [&](const std::string &outside, const std::string &type, std::string &list) {
      const std::string made = name();
      list += (list.empty() ? "" : ", ") + made + " = " + outside;
      types += (types.empty() ? "" : ", ") + type;
      return made;
    };
    std::string list;
    for (int64_t i = 0; i < carried; ++i) {
      inside.values.push_back(enter(pick(scope.values), kValue, list));
      results += (i ? ", " : "") + std::string(kValue);
    }
    groups += list.empty() ? "" : " carried(" + list + ")";
    list.clear();
    for (const auto &stack : sliced) {
      inside.values.push_back(enter(stack.first, stackOf(count), list));
    }
    groups += list.empty() ? "" : " sliced(" + list + ")";
    list.clear();
    inside.values.push_back(enter(pick(scope.values), kValue, list));
    inside.weight = enter(scope.weight, kWeight, list);
    inside.stacks = {};
    if (depth < 2) { // a whole stack may be captured, and sliced by a repeat inside
      inside.stacks.push_back({enter(scope.stacks[below(static_cast<int64_t>(scope.stacks.size()))].first, stackOf(count), list), count});
    }
    groups += " captured(" + list + ")";
    for (int64_t i = 0; i < stacked; ++i) {
      results += (results.empty() ? "" : ", ") + stackOf(times);
    }
    const std::string made = name();
    text += "  " + made + ":" + std::to_string(carried + stacked) + " = nn.repeat " + std::to_string(times) +
            (below(2) ? " reversed" : "") + (holds.empty() ? "" : " when " + holds) + groups + " : (" + types +
            (holds.empty() ? "" : ", tensor<i1>") + ") -> (" + results + ") {\n";
    combine(inside, 1 + below(3));
    if (depth < 2 && below(2)) {
      repeat(inside, depth + 1);
    }
    combine(inside, 1 + below(3));
    std::string yielded, yieldedTypes;
    for (int64_t i = 0; i < carried + stacked; ++i) {
      yielded += (i ? ", " : "") + (below(2) ? inside.values.back() : pick(inside.values));
      yieldedTypes += (i ? ", " : "") + std::string(kValue);
    }
    text += "  nn.yield " + yielded + " : " + yieldedTypes + "\n  }\n";
    for (int64_t i = 0; i < carried; ++i) {
      if (below(3) > 0) { // else it is a result that nothing reads
        scope.values.push_back(made + "#" + std::to_string(i));
      }
    }
    for (int64_t i = carried; i < carried + stacked; ++i) {
      const std::string stack = made + "#" + std::to_string(i);
      if (times == count) {
        scope.stacks.push_back({stack, count});
      }
      if (below(3) > 0) {
        add(scope, name(), "reduce sum " + stack + " dims = [0] : " + stackOf(times) + " -> " + kValue);
      }
    }
  }

  std::mt19937_64 generator;
  std::string text;
  int64_t count = 0, names = 0;
};

} // namespace

std::string randomRepeats(uint64_t seed) {
  return RandomProgram(seed).write();
}

} // namespace ashlar::test

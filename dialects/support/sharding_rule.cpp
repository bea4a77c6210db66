// SPDX-License-Identifier: Apache-2.0
//
// Building and printing sharding rules.

#include "dialects/support/sharding_rule.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace ashlar {

int64_t ShardingRule::addFactor(int64_t size, FactorKind kind, Reduction reduction) {
  factors.push_back({size, kind, reduction});
  return factors.size() - 1;
}

void ShardingRule::addWindow(unsigned tensor, unsigned dim, int64_t size, const Access &access) {
  WindowedDim window{tensor, dim, size, access, {}};
  bool isPosition = access.step == 1 && access.first == 0 && access.last == 1;
  if (!isPosition || factors[factorOf(window)].size != size) {
    windows.push_back(window);
  }
}

void ShardingRule::addWindow(unsigned operand, unsigned dim, int64_t size, SmallVector<ElementRange, 0> ranges) {
  windows.push_back({operand, dim, size, {}, std::move(ranges)});
}

int64_t ShardingRule::factorOf(const WindowedDim &window) const {
  const TensorFactors &tensor = window.tensor < operands.size() ? operands[window.tensor] : results[window.tensor - operands.size()];
  return tensor[window.dim].front();
}

int64_t ShardingRule::smallestSize(int64_t factor) const {
  int64_t size = factors[factor].size;
  for (const WindowedDim &window : windows) {
    size = factorOf(window) == factor ? std::min(size, window.size) : size;
  }
  return size;
}

ShardingRule ShardingRule::elementwise(ArrayRef<int64_t> shape, unsigned numOperands, unsigned numResults) {
  ShardingRule rule;
  TensorFactors dims;
  for (int64_t size : shape) {
    dims.push_back({rule.addFactor(size)});
  }
  rule.operands.assign(numOperands, dims);
  rule.results.assign(numResults, dims);
  return rule;
}

namespace {

// Names factors i, j, k, ..., z, a, ..., h, then i1, j1, ...
std::string factorName(int64_t index) {
  std::string name(1, static_cast<char>('a' + (8 + index) % 26));
  if (index >= 26) {
    name += std::to_string(index / 26);
  }
  return name;
}

void printTensors(raw_ostream &os, ArrayRef<TensorFactors> tensors) {
  os << '(';
  interleaveComma(tensors, os, [&](const TensorFactors &dims) {
    os << '[';
    interleaveComma(dims, os, [&](ArrayRef<int64_t> dim) {
      for (int64_t factor : dim) {
        os << factorName(factor);
      }
      if (dim.empty()) {
        os << '1';
      }
    });
    os << ']';
  });
  os << ')';
}

StringRef kindName(FactorKind kind) {
  switch (kind) {
  case FactorKind::PassThrough:
    return "passing";
  case FactorKind::Reduction:
    return "reduced";
  case FactorKind::NeedReplication:
    return "replicated";
  case FactorKind::Expanded:
    return "expanded";
  case FactorKind::Permutation:
    return "permuted";
  }
  llvm_unreachable("unknown factor kind");
}

} // namespace

std::string ShardingRule::toString() const {
  std::string text;
  raw_string_ostream os(text);
  printTensors(os, operands);
  os << " -> ";
  printTensors(os, results);
  os << " {";
  interleaveComma(llvm::enumerate(factors), os, [&](auto item) { os << factorName(item.index()) << '=' << item.value().size; });
  os << '}';
  for (auto [index, factor] : llvm::enumerate(factors)) {
    if (factor.kind == FactorKind::Reduction) {
      os << ' ' << stringifyReduction(factor.reduction) << "={" << factorName(index) << '}';
    } else if (factor.kind != FactorKind::PassThrough) {
      os << ' ' << kindName(factor.kind) << "={" << factorName(index) << '}';
    }
    if (any_of(windows, [&, factor = index](const WindowedDim &window) { return factorOf(window) == static_cast<int64_t>(factor); })) {
      os << " window={" << factorName(index) << '}';
    }
  }
  return text;
}

} // namespace ashlar

// SPDX-License-Identifier: Apache-2.0
//
// Random roundings, and comparing by what they do; see rounding.h.

#include "test/fuzz/rounding.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace mlir;
using ashlar::reference::Tensor;

namespace ashlar::fuzz {

namespace {

constexpr int kRuns = 32;      // a decision that is open comes out the same way in all of them once in 2^31
constexpr int kAlikeRuns = 8;  // none of them moves equal elements by a quarter of the way once in 2^16
constexpr double kSpreads = 2; // further than any of these runs went
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool makesFloat(Operation *op, llvm::function_ref<bool(Type)> isSuch) {
  return op->getNumResults() == 1 && isSuch(cast<ShapedType>(op->getResult(0).getType()).getElementType());
}

bool computesIn(ModuleOp program, llvm::function_ref<bool(Type)> isSuch) {
  return program
      .walk([&](Operation *op) {
        bool counts = !isa<func::FuncOp, ModuleOp>(op) && makesFloat(op, isSuch);
        return counts ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

Tensor magnitudes(const Tensor &tensor) {
  Tensor result(tensor.getType());
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    tensor.isFloat() ? result.setFloat(i, std::abs(tensor.getFloat(i))) : result.setInt(i, tensor.getInt(i));
  }
  return result;
}

double largestOf(const Tensor &tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    largest = std::max(largest, std::abs(tensor.getFloat(i)));
  }
  return largest;
}

// A sequential sum of n equal terms rounds each the same way, by a quarter of a unit of a partial sum on average, which is half of the sum
// on average: n / 8 units of the sum in all.
constexpr double kUnitsOfATerm = 1.0 / 8;

Tensor onesLike(const Tensor &tensor) {
  Tensor result(tensor.getType());
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    tensor.isFloat() ? result.setFloat(i, 1) : result.setInt(i, tensor.getInt(i));
  }
  return result;
}

// Of attention ops: rounding moves a weight by as much as it moves the score and log_sum, of which the weight is the exponential.
Tensor attentionSizes(Operation *op, ArrayRef<Tensor> operands, const Tensor &result) {
  const double scale = op->getAttrOfType<FloatAttr>("scale").getValueAsDouble();
  const Tensor &query = operands[0], &key = operands[1];
  auto masked = [&](auto typed) { return typed.getMask() ? largestOf(operands[typed.getMaskMutable().begin()->getOperandNumber()]) : 0; };
  double scores = scale * static_cast<double>(query.getShape().back()) * largestOf(query) * largestOf(key);
  Tensor sizes(result.getType());
  auto fill = [&](llvm::function_ref<double(int64_t)> size) {
    for (int64_t i = 0; i < sizes.getNumElements(); ++i) {
      sizes.setFloat(i, size(i));
    }
    return sizes;
  };
  if (auto logSum = dyn_cast<nn::AttentionLogSumOp>(op)) {
    scores += masked(logSum);
    return fill([&](int64_t i) { return std::abs(result.getFloat(i)) + scores; });
  }
  if (auto attention = dyn_cast<nn::AttentionOp>(op)) {
    scores += masked(attention);
    SmallVector<Tensor> positive(operands);
    positive[2] = magnitudes(operands[2]);
    Tensor sums = attention.evaluate(positive);
    return fill([&](int64_t i) { return sums.getFloat(i) * (1 + 2 * scores); });
  }
  auto gradient = cast<nn::AttentionGradientOp>(op);
  scores += masked(gradient);
  const double rows = static_cast<double>(query.getShape().end()[-2]), columns = static_cast<double>(operands[2].getShape().back());
  const double slope = largestOf(operands[5]) / (1 - gradient.getDropout().convertToDouble()),
               ofScore = scale * slope * columns * (largestOf(operands[2]) + largestOf(operands[4]));
  const double size = gradient.getOf() == nn::AttentionOperand::Query ? ofScore * largestOf(key)
                      : gradient.getOf() == nn::AttentionOperand::Key ? ofScore * largestOf(query) * rows
                                                                      : slope * rows;
  return fill([&](int64_t) { return size * (1 + 2 * scores); });
}

// Returns the size of what is rounded on the way to each element of the result, of which rounding moves `units` units; zeros for an op that
// rounds nothing.
Tensor roundedSizes(Operation *op, ArrayRef<Tensor> operands, const Tensor &result, double units) {
  if (isa<nn::AttentionLogSumOp, nn::AttentionOp, nn::AttentionGradientOp>(op)) {
    return attentionSizes(op, operands, result);
  }
  auto reduce = dyn_cast<nn::ReduceOp>(op);
  if (isa<ContractionOpInterface, nn::ResampleOp, nn::ScatterAddOp>(op) || (reduce && reduce.getKind() == Reduction::Sum)) {
    auto compute = cast<ReferenceOpInterface>(op);
    Tensor sizes = compute.evaluate(llvm::map_to_vector(operands, magnitudes));
    if (std::isinf(units)) {
      return sizes;
    }
    Tensor counts = compute.evaluate(llvm::map_to_vector(operands, onesLike));
    for (int64_t i = 0; i < sizes.getNumElements(); ++i) {
      sizes.setFloat(i, sizes.getFloat(i) * std::max(1.0, counts.getFloat(i) * kUnitsOfATerm / units));
    }
    return sizes;
  }
  Tensor sizes(result.getType());
  // Mixed precision rounds constants, too.
  auto constant = dyn_cast<nn::ConstantOp>(op);
  if (constant && constant.getType().getElementTypeBitWidth() < 32 && isa<FloatType>(constant.getType().getElementType())) {
    return magnitudes(result);
  }
  if (isa<nn::ConstantOp, nn::RandomOp, nn::NegOp, nn::AbsOp, nn::SignOp, nn::ReluOp, nn::MaxOp, nn::MinOp, nn::SelectOp, nn::BroadcastOp,
          nn::ReshapeOp, nn::TransposeOp, nn::ConcatOp, nn::SliceOp, nn::PadOp, nn::GatherOp, nn::InsertOp, nn::ReduceOp, nn::WindowsOp,
          nn::UnwindowsOp, nn::MaxPoolOp>(op)) {
    return sizes;
  }
  // These take the difference of logits, or of 1 and an error function, on the way.
  bool subtracts = isa<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::SoftmaxCrossEntropyOp>(op);
  double logits = subtracts ? 2 * largestOf(operands[0]) : 0;
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    double size = std::abs(result.getFloat(i));
    if (isa<nn::CastOp>(op)) {
      size = operands[0].getNumber(i) == result.getFloat(i) ? 0 : size;
    } else if (isa<nn::GeluOp>(op)) {
      size += std::abs(operands[0].getFloat(i));
    } else if (subtracts) {
      size = isa<nn::SoftmaxOp>(op) ? size * (1 + logits) : size + logits;
    }
    sizes.setFloat(i, size);
  }
  return sizes;
}

double differenceOf(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) {
    return 0;
  }
  double difference = std::abs(x - y) / std::max(1.0, std::abs(x));
  return std::isnan(difference) ? kInfinity : difference;
}

// The spread of every element of every tensor; empty when nothing was measured.
using Spreads = std::vector<std::vector<double>>;

FailureOr<Spreads> measureSpreads(ArrayRef<ComparedTensor> tensors, Rerun rerun) {
  Spreads spreads;
  for (const ComparedTensor &tensor : tensors) {
    spreads.emplace_back(tensor.expected->getNumElements());
  }
  for (int run = 0; run < kRuns + kAlikeRuns; ++run) {
    FailureOr<std::vector<Tensor>> moved = rerun(roundingNoise(run, /*alike=*/run >= kRuns));
    if (failed(moved)) {
      return failure();
    }
    for (auto [tensor, other, spread] : llvm::zip_equal(tensors, *moved, spreads)) {
      for (size_t i = 0; i < spread.size(); ++i) {
        spread[i] = std::max(spread[i], differenceOf(tensor.expected->getNumber(i), other.getNumber(i)));
      }
    }
  }
  return spreads;
}

// Compares by given spreads.
Comparison compareBy(const Spreads &spreads, ArrayRef<ComparedTensor> tensors, const Tolerances &tolerances) {
  Comparison comparison;
  for (auto [t, tensor] : llvm::enumerate(tensors)) {
    if (tensor.expected->getType() != tensor.computed->getType()) {
      comparison.fault = llvm::formatv("{0} has another type", tensor.name);
      return comparison;
    }
    const double largest = spreads.empty() || spreads[t].empty() ? 0 : *llvm::max_element(spreads[t]);
    for (int64_t i = 0; i < tensor.expected->getNumElements(); ++i) {
      double x = tensor.expected->getNumber(i), y = tensor.computed->getNumber(i);
      double difference = differenceOf(x, y), spread = spreads.empty() ? 0 : spreads[t][i];
      bool isUndecided = spread > tolerances.usable;
      comparison.further += isUndecided && !(difference <= kSpreads * spread);
      spread = isUndecided ? largest : spread; // what decides how far it goes decides which element of the tensor goes how far
      ++comparison.elements;
      comparison.undecided += isUndecided;
      comparison.difference = isUndecided ? comparison.difference : std::max(comparison.difference, difference);
      if (!(difference <= std::max(tolerances.close, kSpreads * spread)) && comparison.fault.empty()) {
        comparison.fault = llvm::formatv("{0} differs at element {1}: {2:e12} and {3:e12}; rounding moves it by {4:e}", tensor.name, i, x,
                                         y, spread * std::max(1.0, std::abs(x)));
      }
    }
  }
  return comparison;
}

} // namespace

Precision precisionOf(ModuleOp program) {
  if (computesIn(program, isNarrowFloat)) {
    return Precision::Narrow;
  }
  return computesIn(program, [](Type type) { return type.isF32(); }) ? Precision::F32 : Precision::F64;
}

Tolerances tolerancesOf(Precision precision) {
  // Close is ten times what 2,000 seeds from 1 show: 9.7e-15 in f64, 7.3e-7 in f32. In bf16 and f16 all that differs is measured.
  switch (precision) {
  case Precision::F64:
    return {/*close=*/1e-13, /*usable=*/1e-6};
  case Precision::F32:
    return {/*close=*/7e-6, /*usable=*/1e-3};
  case Precision::Narrow:
    return {/*close=*/1e-6, /*usable=*/0.1};
  }
  llvm_unreachable("unknown precision");
}

reference::Observer roundingNoise(uint64_t seed, bool alike) {
  return [generator = std::mt19937_64(seed), alike](Operation *op, ArrayRef<Tensor> operands, Tensor &result) mutable {
    if (!result.isFloat()) {
      return;
    }
    auto type = cast<FloatType>(result.getType().getElementType());
    double units = isNarrowFloat(type) ? 2 : 16;
    double unit = std::ldexp(1.0, -static_cast<int>(type.getFPMantissaWidth()));
    double least = type.isF16() ? 0x1p-24 : 0; // below it f16 has no numbers, which gradients reach
    // Narrow results are summed in f32, where terms take no unit of theirs.
    Tensor sizes = roundedSizes(op, operands, result, isNarrowFloat(type) ? std::numeric_limits<double>::infinity() : units);
    std::map<double, uint64_t> drawn; // of elements that are alike
    for (int64_t i = 0; i < result.getNumElements(); ++i) {
      if (double size = sizes.getFloat(i); size != 0 && std::isfinite(size)) {
        uint64_t bits = generator();
        bits = alike ? drawn.try_emplace(result.getFloat(i), bits).first->second : bits;
        double random = static_cast<double>(bits >> 11) * 0x1p-52 - 1;
        result.setFloat(i, result.getFloat(i) + random * units * std::max(size * unit, least));
      }
    }
  };
}

Comparison compareRounded(ArrayRef<ComparedTensor> tensors, const Tolerances &tolerances, Rerun rerun) {
  Comparison plain = compareBy({}, tensors, tolerances);
  if (plain.fault.empty()) {
    return plain;
  }
  FailureOr<Spreads> spreads = measureSpreads(tensors, rerun);
  return succeeded(spreads) ? compareBy(*spreads, tensors, tolerances) : plain;
}

double largestAllowance(ArrayRef<ComparedTensor> tensors, const Tolerances &tolerances, Rerun rerun) {
  FailureOr<Spreads> spreads = measureSpreads(tensors, rerun);
  double largest = succeeded(spreads) ? tolerances.close : kInfinity;
  for (size_t t = 0; succeeded(spreads) && t < spreads->size(); ++t) {
    for (double spread : (*spreads)[t]) {
      largest = std::max(largest, kSpreads * spread);
    }
  }
  return largest;
}

} // namespace ashlar::fuzz

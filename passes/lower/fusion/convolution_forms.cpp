// SPDX-License-Identifier: Apache-2.0
//
// For generated kernels: a convolution as a sum of products, both operands repeated to one shape, whose last dims are what is added up.
// Groups are a dim of their own, so that one form serves all. Tensors are seen as
//
//   x (batch, groups, channels, in...)   weights (groups, outputs, channels, size...)   y (batch, groups, outputs, positions...)

#include "passes/lower/fusion/convolution_forms.h"

#include "passes/lower/calls/library_convolution.h"

#include "dialects/exec/target_traits.h"
#include "dialects/nn/windows/convolution.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// Returns the permutation that takes [b, c, h, w] to [b, h, w, c], or back.
SmallVector<int64_t> channelsTo(bool last, int64_t rank) {
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  auto second = permutation.begin() + 1;
  std::rotate(second, last ? second + 1 : permutation.end() - 1, permutation.end());
  return permutation;
}

bool isEmpty(Value value) {
  return typeOf(value).getNumElements() == 0;
}

// Returns the part of a tensor that begins at `begins` and has this type; 0 where the tensor has no element.
Value cutOut(ImplicitLocOpBuilder &b, Value value, ArrayRef<int64_t> begins, RankedTensorType type) {
  ArrayRef<int64_t> size = shapeOf(value);
  SmallVector<int64_t> starts, limits, low, none(size.size(), 0), steps(size.size(), 1);
  for (auto [begin, from, to] : llvm::zip_equal(begins, size, type.getShape())) {
    starts.push_back(std::clamp<int64_t>(begin, 0, from));
    limits.push_back(std::clamp<int64_t>(begin + to, starts.back(), from));
    low.push_back(std::clamp<int64_t>(-begin, 0, to));
  }
  Value part = nn::SliceOp::create(b, value, starts, limits, steps);
  return nn::PadOp::create(b, type, part, low, none);
}

// What a dim counts. Spatial dims are numbered from the label on.
enum Label : int64_t { kBatch, kGroup, kOutput, kChannel, kElement = 10, kPosition = 20, kPlace = 30 };

using Labels = SmallVector<int64_t>;

class Expansion {
public:
  Expansion(ImplicitLocOpBuilder &b, const nn::Convolution &conv) : b(b), conv(conv), spatial(conv.spatialRank()) {}

  Value run(RankedTensorType type) {
    switch (conv.kind) {
    case nn::ConvolutionKind::Forward: // over the channels and the places of a window
      return fromGrouped(contract(windowsOfX(), places(), concat({kBatch, kGroup, kOutput}, kPosition), concat({kChannel}, kPlace)), type);
    case nn::ConvolutionKind::Data: // over the outputs, and the places at which a window has the element
      return fromGrouped(contract(windowsOfY(), places(), concat({kBatch, kGroup, kChannel}, kElement), concat({kOutput}, kPlace)), type);
    case nn::ConvolutionKind::Weights: // over all positions
      return fromGroupedWeights(contract(windowsOfX(), y(), concat({kGroup, kOutput, kChannel}, kPlace), concat({kBatch}, kPosition)),
                                type);
    }
    llvm_unreachable("unknown convolution");
  }

private:
  struct Labeled {
    Value value;
    Labels labels;
  };

  Labels concat(Labels labels, int64_t first) const {
    for (int64_t i = 0; i < spatial; ++i) {
      labels.push_back(first + i);
    }
    return labels;
  }

  // Returns the dims of x and y that are spatial once the groups are a dim.
  SmallVector<int64_t> spatialDims() const { return llvm::to_vector(llvm::seq<int64_t>(3, 3 + spatial)); }

  Value moveChannels(Value value, bool last) { return nn::TransposeOp::create(b, value, channelsTo(last, typeOf(value).getRank())); }

  // Returns x or y with the channels first, in groups.
  Value toGrouped(Value value) {
    Value first = conv.format.channelsLast ? moveChannels(value, /*last=*/false) : value;
    SmallVector<int64_t> shape(shapeOf(first));
    int64_t groups = conv.groups();
    shape[1] /= groups;
    shape.insert(shape.begin() + 1, groups);
    return nn::ReshapeOp::create(b, typeOf(first).clone(shape), first);
  }

  Value fromGrouped(Value value, RankedTensorType type) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape[1] *= shape[2];
    shape.erase(shape.begin() + 2);
    Value first = nn::ReshapeOp::create(b, typeOf(value).clone(shape), value);
    return conv.format.channelsLast ? moveChannels(first, /*last=*/true) : first;
  }

  Labeled windowsOfX() {
    Value windows = nn::WindowsOp::create(b, toGrouped(conv.x), spatialDims(), conv.windows);
    return {windows, concat(concat({kBatch, kGroup, kChannel}, kPosition), kPlace)};
  }

  // Returns for each element of x and each place of a window the element of y whose window has it there.
  Labeled windowsOfY() {
    Value grouped = toGrouped(conv.y);
    SmallVector<int64_t> shape(shapeOf(grouped)), kept = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
    for (int64_t i = 0; i < spatial; ++i) {
      shape.push_back(conv.window(i).getSize());
    }
    Value repeated = nn::BroadcastOp::create(b, typeOf(grouped).clone(shape), grouped, kept);
    for (int64_t i = 0; i < spatial; ++i) {
      shape[3 + i] = shapeOf(conv.x)[conv.dimOf(i)];
    }
    Value elements = nn::UnwindowsOp::create(b, typeOf(grouped).clone(shape), repeated, spatialDims(), conv.windows);
    return {elements, concat(concat({kBatch, kGroup, kOutput}, kElement), kPlace)};
  }

  Labeled y() { return {toGrouped(conv.y), concat({kBatch, kGroup, kOutput}, kPosition)}; }

  Labeled places() {
    Value first = conv.format.weightsLast ? moveChannels(conv.weights, /*last=*/false) : conv.weights;
    SmallVector<int64_t> shape(shapeOf(first));
    shape[0] /= conv.groups();
    shape.insert(shape.begin(), conv.groups());
    return {nn::ReshapeOp::create(b, typeOf(first).clone(shape), first), concat({kGroup, kOutput, kChannel}, kPlace)};
  }

  Value fromGroupedWeights(Value value, RankedTensorType type) {
    SmallVector<int64_t> shape(shapeOf(value).drop_front());
    shape[0] = type.getDimSize(0);
    Value first = nn::ReshapeOp::create(b, type.clone(shape), value);
    return conv.format.weightsLast ? moveChannels(first, /*last=*/true) : first;
  }

  // Returns the sums over `summed` of the products of two tensors; its dims are `kept`.
  Value contract(const Labeled &first, const Labeled &second, Labels kept, const Labels &summed) {
    Labels domain = kept;
    llvm::append_range(domain, summed);
    SmallVector<int64_t> shape(domain.size());
    for (const Labeled &each : {first, second}) {
      for (auto [label, size] : llvm::zip_equal(each.labels, shapeOf(each.value))) {
        shape[llvm::find(domain, label) - domain.begin()] = size;
      }
    }
    Value product = nn::MulOp::create(b, repeat(first, domain, shape), repeat(second, domain, shape));
    return nn::ReduceOp::create(b, Reduction::Sum, product, llvm::to_vector(llvm::seq<int64_t>(kept.size(), domain.size())));
  }

  // Returns the tensor with its dims in the order of the domain, repeated along those that it lacks.
  Value repeat(const Labeled &tensor, const Labels &domain, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> order, dims;
    for (auto [position, label] : llvm::enumerate(domain)) {
      if (auto found = llvm::find(tensor.labels, label); found != tensor.labels.end()) {
        order.push_back(found - tensor.labels.begin());
        dims.push_back(position);
      }
    }
    Value ordered = nn::TransposeOp::create(b, tensor.value, order);
    return nn::BroadcastOp::create(b, typeOf(ordered).clone(shape), ordered, dims);
  }

  ImplicitLocOpBuilder &b;
  const nn::Convolution &conv;
  int64_t spatial;
};

} // namespace

Value scaleConvolution(ImplicitLocOpBuilder &b, Operation *op, exec::Target target) {
  auto normalize = dyn_cast<nn::NormalizeOp>(op);
  if (!normalize || !exec::traitsOf(target).joinsConvolutions || !normalize.getType().getElementType().isF32()) {
    return {};
  }
  Operation *last = normalize.getInput().getDefiningOp();
  std::optional<nn::Convolution> conv = last ? nn::Convolution::find(last) : std::nullopt;
  bool isOfChannels = normalize.getDims() == ArrayRef<int64_t>{normalize.getType().getRank() - 1};
  if (!conv || conv->kind == nn::ConvolutionKind::Weights || !isLibraryConvolution(last, target) || !last->hasOneUse() || !isOfChannels) {
    return {};
  }
  RankedTensorType type = normalize.getType(), vector = typeOf(normalize.getVariance());
  auto repeated = [&](Value value) { return nn::BroadcastOp::create(b, type, value, normalize.getDims()).getResult(); };
  auto constant = [&](double value) { return nn::ConstantOp::create(b, nn::splat(vector, value)).getResult(); };
  Value epsilon = constant(normalize.getEpsilon().convertToDouble());
  Value root = nn::SqrtOp::create(b, nn::AddOp::create(b, normalize.getVariance(), epsilon));
  Value factor = nn::MulOp::create(b, normalize.getScale(), nn::DivOp::create(b, constant(1), root));
  Value bias = nn::SubOp::create(b, normalize.getShift(), nn::MulOp::create(b, normalize.getMean(), factor));
  return nn::AddOp::create(b, nn::MulOp::create(b, normalize.getInput(), repeated(factor)), repeated(bias));
}

Value padEvenly(ImplicitLocOpBuilder &b, Operation *op) {
  std::optional<nn::Convolution> conv = nn::Convolution::find(op);
  if (!conv) {
    return {};
  }
  SmallVector<Attribute> windows(conv->windows.begin(), conv->windows.end());
  SmallVector<int64_t> begins(windows.size() + 2, 0), shape(shapeOf(conv->x)); // of x with its padding, in elements of x
  bool isEven = true;
  for (int64_t i = 0; i < conv->spatialRank(); ++i) {
    nn::WindowAttr window = conv->window(i);
    int64_t dim = conv->dimOf(i), positions = shapeOf(conv->y)[dim];
    auto even =
        nn::WindowAttr::get(b.getContext(), window.getSize(), window.getStride(), window.getDilation(), window.getLow(), window.getLow());
    if (window.getLow() >= 0 && even.countPositions(shape[dim]) == positions) {
      continue;
    }
    isEven = false;
    begins[dim] = -window.getLow();
    shape[dim] = (positions - 1) * window.getStride() + window.getSpan();
    windows[i] = window.getOnRun(/*low=*/0, shape[dim], positions);
  }
  if (isEven) {
    return {};
  }
  SmallVector<Value, 2> operands(op->getOperands());
  RankedTensorType padded = typeOf(conv->x).clone(shape), type = typeOf(op->getResult(0));
  if (conv->kind != nn::ConvolutionKind::Data) {
    operands[0] = cutOut(b, conv->x, begins, padded);
  }
  Value result = nn::createConvolution(b, op->getLoc(), conv->kind, conv->kind == nn::ConvolutionKind::Data ? padded : type, operands,
                                       b.getArrayAttr(windows), conv->format);
  result.getDefiningOp()->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  for (int64_t &begin : begins) {
    begin = -begin;
  }
  return conv->kind == nn::ConvolutionKind::Data ? cutOut(b, result, begins, type) : result;
}

Value expandConvolution(ImplicitLocOpBuilder &b, Operation *op) {
  std::optional<nn::Convolution> conv = nn::Convolution::find(op);
  if (!conv) {
    return {};
  }
  RankedTensorType type = typeOf(op->getResult(0));
  bool addsNothing = isEmpty(conv->x) || isEmpty(conv->weights) || isEmpty(conv->y);
  return addsNothing ? nn::ConstantOp::create(b, nn::splat(type, 0)).getResult() : Expansion(b, *conv).run(type);
}

} // namespace ashlar::lower

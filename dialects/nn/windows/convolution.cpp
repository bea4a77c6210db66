// SPDX-License-Identifier: Apache-2.0
//
// What the three convolutions have in common: their tensors, types, sharding rule, gradients and work.

#include "dialects/nn/windows/convolution.h"

#include "dialects/nn/ops/evaluation.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

template <typename Op> ConvolutionFormat formatOf(Op op) {
  return {op.getChannelsLast(), op.getWeightsLast()};
}

} // namespace

std::optional<Convolution> Convolution::find(Operation *op) {
  using Found = std::optional<Convolution>;
  return llvm::TypeSwitch<Operation *, Found>(op)
      .Case([](ConvOp conv) -> Found {
        return Convolution{ConvolutionKind::Forward, conv.getX(),           conv.getWeights(),
                           conv.getResult(),         conv.getWindowsAttr(), formatOf(conv)};
      })
      .Case([](ConvDataOp conv) -> Found {
        return Convolution{ConvolutionKind::Data, conv.getResult(), conv.getWeights(), conv.getY(), conv.getWindowsAttr(), formatOf(conv)};
      })
      .Case([](ConvWeightsOp conv) -> Found {
        return Convolution{ConvolutionKind::Weights, conv.getX(), conv.getResult(), conv.getY(), conv.getWindowsAttr(), formatOf(conv)};
      })
      .Default([](Operation *) -> Found { return std::nullopt; });
}

int64_t Convolution::groups() const {
  return shapeOf(x)[channelDim()] / std::max<int64_t>(shapeOf(weights)[weightChannelDim()], 1);
}

Value createConvolution(OpBuilder &builder, Location loc, ConvolutionKind kind, RankedTensorType type, ValueRange operands,
                        ArrayAttr windows, ConvolutionFormat format) {
  switch (kind) {
  case ConvolutionKind::Forward:
    return ConvOp::create(builder, loc, type, operands[0], operands[1], windows, format.channelsLast, format.weightsLast);
  case ConvolutionKind::Data:
    return ConvDataOp::create(builder, loc, type, operands[0], operands[1], windows, format.channelsLast, format.weightsLast);
  case ConvolutionKind::Weights:
    return ConvWeightsOp::create(builder, loc, type, operands[0], operands[1], windows, format.channelsLast, format.weightsLast);
  }
  llvm_unreachable("unknown convolution");
}

//===-- Types -------------------------------------------------------------------------------------------------------------------------===//

FailureOr<RankedTensorType> inferConvolution(RankedTensorType x, RankedTensorType weights, ArrayAttr windows, ConvolutionFormat format,
                                             function_ref<InFlightDiagnostic()> emitError) {
  constexpr int64_t kMostSpatialDims = 3;
  int64_t spatial = windows.size(), rank = spatial + 2;
  if (spatial < 1 || spatial > kMostSpatialDims || x.getRank() != rank || weights.getRank() != rank) { // C1
    return emitError() << "has " << spatial << " windows, which are 1 to 3, for x of " << x << " and weights of " << weights
                       << ", which have two more dims than there are windows";
  }
  Convolution dims{ConvolutionKind::Forward, {}, {}, {}, windows, format};
  for (int64_t i = 0; i < spatial; ++i) {
    if (dims.window(i).getSize() != weights.getDimSize(dims.weightDimOf(i))) { // C2
      return emitError() << "has a window of size " << dims.window(i).getSize() << " in spatial dim " << i << " but weights of " << weights;
    }
  }
  int64_t channels = x.getDimSize(dims.channelDim()), ofGroup = weights.getDimSize(dims.weightChannelDim()),
          outputs = weights.getDimSize(0);
  int64_t groups = channels / std::max<int64_t>(ofGroup, 1);
  if (groups * ofGroup != channels || (groups > 0 && outputs % groups != 0)) { // C3
    return emitError() << "has " << channels << " channels in x, " << ofGroup << " channels of a group in weights of " << weights
                       << ", and " << outputs << " channels in y: the groups are not equal";
  }
  SmallVector<int64_t> shape(x.getShape());
  shape[dims.channelDim()] = outputs;
  for (int64_t i = 0; i < spatial; ++i) {
    WindowAttr window = dims.window(i);
    std::optional<int64_t> positions = window.countPositions(x.getDimSize(dims.dimOf(i)));
    if (!positions) { // C4
      return emitError() << "has a window that spans " << window.getSpan() << " elements in spatial dim " << i << ", where x has "
                         << x.getDimSize(dims.dimOf(i)) << " and padding " << window.getLow() << " and " << window.getHigh();
    }
    shape[dims.dimOf(i)] = *positions;
  }
  return x.clone(shape);
}

namespace {

// C6: the operands have one element type, and the result that or f32.
bool fitTypes(Operation *op) {
  Type first = typeOf(op->getOperand(0)).getElementType(), result = typeOf(op->getResult(0)).getElementType();
  return typeOf(op->getOperand(1)).getElementType() == first && (result == first || (isNarrowFloat(first) && result.isF32()));
}

LogicalResult verifyConvolution(Operation *op) {
  Convolution conv = *Convolution::find(op);
  FailureOr<RankedTensorType> y =
      inferConvolution(typeOf(conv.x), typeOf(conv.weights), conv.windows, conv.format, [&] { return op->emitOpError(); });
  if (failed(y)) {
    return failure();
  }
  if (shapeOf(conv.y) != y->getShape()) { // C5
    return op->emitOpError("has y of ") << typeOf(conv.y) << ", but x of " << typeOf(conv.x) << " and weights of " << typeOf(conv.weights)
                                        << " need shape [" << y->getShape() << "]";
  }
  if (!fitTypes(op)) { // C6
    return op->emitOpError("mixes element types: ")
           << op->getOperand(0).getType() << ", " << op->getOperand(1).getType() << " and " << op->getResult(0).getType();
  }
  return success();
}

//===-- Sharding rule -----------------------------------------------------------------------------------------------------------------===//

// The factors of a rule while it is built: what the dims of the three tensors are. A factor that the result lacks is summed over.
class ConvolutionRule {
public:
  explicit ConvolutionRule(const Convolution &conv) : conv(conv), x(conv.spatialRank() + 2), weights(x.size()), y(x.size()) {}

  //   x ([b, gc, h], weights [gm, c, p], y [b, gm, h]: b over x and y, c over x and weights, m over weights and y
  ShardingRule build() {
    ArrayRef<int64_t> shape = shapeOf(conv.weights);
    int64_t channel = conv.channelDim(), channelOfGroup = conv.weightChannelDim(), groups = conv.groups();
    addTo({&x[0], &y[0]}, shapeOf(conv.x)[0], absentFrom(ConvolutionKind::Weights));
    if (groups > 1) {
      addTo({&x[channel], &weights[0], &y[channel]}, groups, FactorKind::PassThrough);
    }
    if (groups == 1 || shape[0] > groups) {
      addTo({&weights[0], &y[channel]}, shape[0] / std::max<int64_t>(groups, 1), absentFrom(ConvolutionKind::Data));
    }
    if (groups == 1 || shape[channelOfGroup] > 1) {
      addTo({&x[channel], &weights[channelOfGroup]}, shape[channelOfGroup], absentFrom(ConvolutionKind::Forward));
    }
    for (int64_t i = 0; i < conv.spatialRank(); ++i) {
      addSpatial(i);
    }
    return finish();
  }

private:
  using Dim = SmallVector<int64_t, 2>;

  FactorKind absentFrom(ConvolutionKind kind) { return conv.kind == kind ? FactorKind::Reduction : FactorKind::PassThrough; }

  void addTo(ArrayRef<Dim *> dims, int64_t size, FactorKind kind) {
    int64_t factor = rule.addFactor(size, kind);
    for (Dim *dim : dims) {
      dim->push_back(factor);
    }
  }

  // A spatial dim counts positions, which need windows of x; where x is computed it counts blocks of `stride` elements of x, which need
  // positions, so that the places of the windows in them are the same on every device.
  void addSpatial(int64_t i) {
    int64_t dim = conv.dimOf(i), elements = shapeOf(conv.x)[dim];
    bool isData = conv.kind == ConvolutionKind::Data;
    int64_t positions = isData ? llvm::divideCeil(elements, conv.window(i).getStride()) : shapeOf(conv.y)[dim];
    addTo({&x[dim], &y[dim]}, positions, absentFrom(ConvolutionKind::Weights));
    addTo({&weights[conv.weightDimOf(i)]}, conv.window(i).getSize(), FactorKind::NeedReplication);
  }

  // Notes what positions need of x, or blocks of x of y, which is operand 0 in either case.
  void addWindows() {
    for (int64_t i = 0; i < conv.spatialRank(); ++i) {
      int64_t dim = conv.dimOf(i), stride = conv.window(i).getStride();
      if (conv.kind == ConvolutionKind::Data) {
        rule.addWindow(/*tensor=*/0, dim, shapeOf(conv.y)[dim], conv.window(i).getPositionsOfBlocks());
        rule.addWindow(/*tensor=*/2, dim, shapeOf(conv.x)[dim], {stride, 0, stride});
      } else {
        rule.addWindow(/*tensor=*/0, dim, shapeOf(conv.x)[dim], conv.window(i).getElements());
      }
    }
  }

  ShardingRule finish() {
    switch (conv.kind) {
    case ConvolutionKind::Forward:
      rule.operands = {x, weights};
      rule.results = {y};
      break;
    case ConvolutionKind::Data:
      rule.operands = {y, weights};
      rule.results = {x};
      break;
    case ConvolutionKind::Weights:
      rule.operands = {x, y};
      rule.results = {weights};
      break;
    }
    addWindows();
    return std::move(rule);
  }

  const Convolution &conv;
  TensorFactors x, weights, y;
  ShardingRule rule;
};

// In a run there is no padding; where x is computed from a run of y, the run begins `first` positions behind the block.
void computeConvolutionOnRuns(Operation *op, const llvm::SmallBitVector &dims) {
  Convolution conv = *Convolution::find(op);
  SmallVector<Attribute> windows(conv.windows.begin(), conv.windows.end());
  for (int64_t i = 0; i < conv.spatialRank(); ++i) {
    int64_t dim = conv.dimOf(i), low = 0;
    if (!dims.test(dim)) {
      continue;
    }
    if (conv.kind == ConvolutionKind::Data) {
      low = conv.window(i).getLow() - conv.window(i).getPositionsOfBlocks().first * conv.window(i).getStride();
    }
    windows[i] = conv.window(i).getOnRun(low, shapeOf(conv.x)[dim], shapeOf(conv.y)[dim]);
  }
  op->setAttr("windows", ArrayAttr::get(op->getContext(), windows));
}

//===-- Gradients and work ------------------------------------------------------------------------------------------------------------===//

// Returns what each operand of a convolution is, seen from the one that computes it.
SmallVector<ConvolutionKind, 2> operandKinds(ConvolutionKind kind) {
  switch (kind) {
  case ConvolutionKind::Forward:
    return {ConvolutionKind::Data, ConvolutionKind::Weights};
  case ConvolutionKind::Data:
    return {ConvolutionKind::Forward, ConvolutionKind::Weights};
  case ConvolutionKind::Weights:
    return {ConvolutionKind::Data, ConvolutionKind::Forward};
  }
  llvm_unreachable("unknown convolution");
}

// With the gradient of the result in its place, each operand is computed from the two other tensors. Where the result is f32 and the
// operands are narrower, the gradients are of their own type.
void buildConvolutionGradients(Operation *op, OpBuilder &builder, Value gradient, MutableArrayRef<Value> out) {
  Convolution conv = *Convolution::find(op);
  Type element = typeOf(op->getOperand(0)).getElementType();
  Value slope = gradient;
  if (typeOf(gradient).getElementType() != element) {
    slope = CastOp::create(builder, op->getLoc(), typeOf(gradient).clone(element), gradient);
  }
  auto current = [&](Value tensor) { return tensor == op->getResult(0) ? slope : tensor; };
  Value x = current(conv.x), weights = current(conv.weights), y = current(conv.y);
  for (auto [kind, operand, result] : llvm::zip_equal(operandKinds(conv.kind), op->getOperands(), out)) {
    SmallVector<Value, 2> others = kind == ConvolutionKind::Forward ? SmallVector<Value, 2>{x, weights}
                                   : kind == ConvolutionKind::Data  ? SmallVector<Value, 2>{y, weights}
                                                                    : SmallVector<Value, 2>{x, y};
    result = createConvolution(builder, op->getLoc(), kind, typeOf(operand), others, conv.windows, conv.format);
  }
}

// Each element of y is a sum over the channels of a group and the window, in all three.
int64_t countConvolutionProducts(ConvolutionKind kind, ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType> results) {
  RankedTensorType weights = kind == ConvolutionKind::Weights ? results[0] : operands[1];
  RankedTensorType y = kind == ConvolutionKind::Forward ? results[0] : operands[kind == ConvolutionKind::Data ? 0 : 1];
  __int128 products = __int128(y.getNumElements()) * (weights.getNumElements() / std::max<int64_t>(weights.getDimSize(0), 1));
  return static_cast<int64_t>(std::min<__int128>(products, INT64_MAX));
}

// Returns the fewer of the channels in and out of a group. `conv`: of the op; the types may be pieces of its own.
int64_t fewerChannels(const Convolution &conv, ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType> results) {
  RankedTensorType weights = conv.kind == ConvolutionKind::Weights ? results[0] : operands[1];
  RankedTensorType x = conv.kind == ConvolutionKind::Data ? results[0] : operands[0];
  int64_t in = weights.getDimSize(conv.weightChannelDim());
  int64_t groups = std::max<int64_t>(1, x.getDimSize(conv.channelDim()) / std::max<int64_t>(in, 1));
  return std::min(in, weights.getDimSize(0) / groups);
}

} // namespace

#define ASHLAR_CONVOLUTION(Op, Kind)                                                                                                       \
  LogicalResult Op::verify() {                                                                                                             \
    return verifyConvolution(*this);                                                                                                       \
  }                                                                                                                                        \
  ShardingRule Op::getShardingRule() {                                                                                                     \
    Convolution conv = *Convolution::find(*this);                                                                                          \
    return ConvolutionRule(conv).build();                                                                                                  \
  }                                                                                                                                        \
  void Op::buildGradients(OpBuilder &builder, ValueRange g, MutableArrayRef<Value> out) {                                                  \
    buildConvolutionGradients(*this, builder, g[0], out);                                                                                  \
  }                                                                                                                                        \
  int64_t Op::countProducts(ArrayRef<RankedTensorType> operandTypes, ArrayRef<RankedTensorType> resultTypes) {                             \
    return countConvolutionProducts(Kind, operandTypes, resultTypes);                                                                      \
  }                                                                                                                                        \
  RateClass Op::getRateClass(ArrayRef<RankedTensorType> operandTypes, ArrayRef<RankedTensorType> resultTypes) {                            \
    return {RateClass::Convolution, fewerChannels(*Convolution::find(*this), operandTypes, resultTypes)};                                  \
  }                                                                                                                                        \
  void Op::computeOnRuns(const llvm::SmallBitVector &dims, RunStartBuilder) {                                                              \
    computeConvolutionOnRuns(*this, dims);                                                                                                 \
  }

ASHLAR_CONVOLUTION(ConvOp, ConvolutionKind::Forward)
ASHLAR_CONVOLUTION(ConvDataOp, ConvolutionKind::Data)
ASHLAR_CONVOLUTION(ConvWeightsOp, ConvolutionKind::Weights)

#undef ASHLAR_CONVOLUTION

//===-- Reference semantics -----------------------------------------------------------------------------------------------------------===//

namespace {

// Calls `body` with the places of an element of x, of the weights and of y for each product x * w that y adds up. Padding is no element.
void forEachProduct(const Convolution &conv, const Tensor &x, const Tensor &weights, const Tensor &y,
                    llvm::function_ref<void(int64_t inX, int64_t inWeights, int64_t inY)> body) {
  int64_t channel = conv.channelDim(), channelOfGroup = conv.weightChannelDim(), ofGroup = weights.getShape()[channelOfGroup];
  int64_t outputsOfGroup = weights.getShape()[0] / std::max<int64_t>(conv.groups(), 1);
  forEachIndex(y.getShape(), [&](ArrayRef<int64_t> yIndex, int64_t inY) {
    Index xIndex(yIndex), weightIndex(weights.getShape().size());
    weightIndex[0] = yIndex[channel];
    forEachIndex(weights.getShape().drop_front(), [&](ArrayRef<int64_t> place, int64_t) {
      llvm::copy(place, weightIndex.begin() + 1);
      xIndex[channel] = yIndex[channel] / outputsOfGroup * ofGroup + weightIndex[channelOfGroup];
      bool isPadding = false;
      for (int64_t i = 0; i < conv.spatialRank(); ++i) {
        int64_t d = conv.dimOf(i);
        xIndex[d] = conv.window(i).elementAt(yIndex[d], weightIndex[conv.weightDimOf(i)]);
        isPadding |= xIndex[d] < 0 || xIndex[d] >= x.getShape()[d];
      }
      if (!isPadding) {
        body(x.linearize(xIndex), weights.linearize(weightIndex), inY);
      }
    });
  });
}

// One walk over all products serves the three ops, which differ in the tensor that they add up. Sums run in double and are rounded once.
Tensor convolve(Operation *op, ArrayRef<Tensor> operands) {
  Convolution conv = *Convolution::find(op);
  Tensor result(typeOf(op->getResult(0)));
  std::vector<double> sums(result.getNumElements(), 0);
  const Tensor &first = operands[0], &second = operands[1];
  switch (conv.kind) {
  case ConvolutionKind::Forward:
    forEachProduct(conv, first, second, result,
                   [&](int64_t x, int64_t w, int64_t y) { sums[y] += first.getFloat(x) * second.getFloat(w); });
    break;
  case ConvolutionKind::Data:
    forEachProduct(conv, result, second, first,
                   [&](int64_t x, int64_t w, int64_t y) { sums[x] += first.getFloat(y) * second.getFloat(w); });
    break;
  case ConvolutionKind::Weights:
    forEachProduct(conv, first, result, second,
                   [&](int64_t x, int64_t w, int64_t y) { sums[w] += first.getFloat(x) * second.getFloat(y); });
    break;
  }
  for (auto [i, sum] : llvm::enumerate(sums)) {
    result.setFloat(i, sum);
  }
  return result;
}

} // namespace

Tensor ConvOp::evaluate(ArrayRef<Tensor> operands) {
  return convolve(*this, operands);
}

Tensor ConvDataOp::evaluate(ArrayRef<Tensor> operands) {
  return convolve(*this, operands);
}

Tensor ConvWeightsOp::evaluate(ArrayRef<Tensor> operands) {
  return convolve(*this, operands);
}

} // namespace ashlar::nn

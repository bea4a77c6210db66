// SPDX-License-Identifier: Apache-2.0
//
// Normalizations of channels: of a batch, a sample, or a group of channels of a sample. All are nn.normalize by the moments of some dims.
// What a batch normalization does in training is decided here, and done by -ashlar-batch-norm.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"

#include "dialects/nn/pairs.h"
#include "dialects/support/element_type.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

using Dims = SmallVector<int64_t>;

// Returns begin, ..., end - 1.
Dims dimsOf(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq<int64_t>(begin, std::max(begin, end)));
}

// Returns input `index` in the element type of `like`; fails unless it has `shape`.
Value parameter(Node &node, size_t index, StringRef name, ArrayRef<int64_t> shape, Value like) {
  RankedTensorType type = node.inputType(index);
  RankedTensorType expected = type.clone(shape);
  if (type.getShape() != shape || !isa<FloatType>(type.getElementType())) {
    node.fail("input " + Twine(index) + " (" + name + ") of " + describeTensor(type) + " does not fit input 0 of " +
              describeTensor(node.inputType(0)) + "; it has to be " + describeTensor(expected));
  }
  return convertTo(node, node.input(index), typeOf(like).getElementType());
}

// The mean and variance of x along `dims`.
struct Moments {
  Moments(const Node &node, Value x, ArrayRef<int64_t> dims) {
    if (typeOf(x).getNumElements() == 0) {
      node.fail("has no elements to normalize");
    }
    Value both = node.create<nn::MomentsOp>(x, dims);
    ImplicitLocOpBuilder b(node.location(), node.builder());
    mean = nn::partOf(b, both, 0);
    variance = nn::partOf(b, both, 1);
  }

  Value mean, variance;
};

// Fails unless the rank of input 0 is at least `rank`.
void needRank(Node &node, int64_t rank) {
  if (node.inputType(0).getRank() < rank) {
    node.fail("input 0 has rank " + Twine(node.inputType(0).getRank()) + " but the op needs samples, channels" +
              (rank > 2 ? " and at least one more dim" : ""));
  }
}

//===-- BatchNormalization ------------------------------------------------------------------------------------------------------------===//

// What a node takes its statistics from.
enum class Form {
  Inference, // the running ones, which stay
  Module,    // a module in training, exported in inference form: as torch.nn.BatchNorm in train()
  Training   // a node with training_mode: as ONNX says, but for the running variance of a model that torch wrote
};

// Whether the node says that its own program trains: by an attribute, before opset 14 by its number of results.
bool saysTraining(Node &node) {
  if (node.getOpset() >= 14) {
    return node.getInt("training_mode", 0) != 0;
  }
  return llvm::any_of(llvm::seq<size_t>(1, std::max<size_t>(1, node.numResults())), [&](size_t i) { return node.hasResult(i); });
}

bool isFrozen(const Node &node, size_t index) {
  StringRef name = node.parameterOf(index);
  return !name.empty() && node.getInfo().rules.isFrozen(name);
}

Form readForm(Node &node) {
  bool training = saysTraining(node);
  bool areStates = !node.parameterOf(3).empty() && !node.parameterOf(4).empty();
  if (!node.getInfo().options.training || isFrozen(node, 1) || isFrozen(node, 3) || isFrozen(node, 4)) {
    return Form::Inference;
  }
  if (!areStates && training) {
    node.fail("trains, but its running mean and variance are no initializers, so nothing can keep them from step to step");
  }
  if (!areStates) {
    return Form::Inference; // constants, as other constants are
  }
  if (node.getInfo().options.local) {
    node.fail("normalizes by the statistics of a batch, and a model of mode HYBRID sees only its shard; name \"" + node.parameterOf(1) +
              "\" in the job's frozen, or use another mode");
  }
  return training ? Form::Training : Form::Module;
}

// Whether the running variance follows that of the batch times n / (n - 1).
bool isUnbiased(const Node &node, Form form) {
  const ModelInfo &info = node.getInfo();
  return form != Form::Inference && info.options.unbiasedVariance.value_or(form == Form::Module || info.isByTorch);
}

// Returns a running statistic, which nothing trains.
Value statistic(Node &node, size_t index, StringRef name, ArrayRef<int64_t> shape, Value x, Form form) {
  Type kept = node.inputType(index).getElementType(), moved = typeOf(x).getElementType();
  if (form != Form::Inference && kept.getIntOrFloatBitWidth() > moved.getIntOrFloatBitWidth()) {
    node.fail("input " + Twine(index) + " (" + name + ") has elements of " + elementName(kept) + " but is trained in " +
              elementName(moved) + "; export it in that type");
  }
  if (!node.parameterOf(index).empty()) {
    node.keepAsState(index);
  }
  return parameter(node, index, name, shape, x);
}

void importBatchNormalization(Node &node) {
  needRank(node, 1);
  double epsilon = node.getFloat("epsilon", 1e-5), momentum = node.getFloat("momentum", 0.9);
  bool isSpatial = node.getOpset() >= 9 || node.getInt("spatial", 1) != 0;
  Form form = readForm(node);
  Value x = widen(node, node.input(0));
  RankedTensorType type = typeOf(x);
  if (type.getRank() == 1) { // samples of one channel
    x = reshape(node, x, {type.getDimSize(0), 1});
  }
  ArrayRef<int64_t> channels = shapeOf(x).slice(1, isSpatial ? 1 : typeOf(x).getRank() - 1); // not spatial: each element is one
  Value scale = parameter(node, 1, "scale", channels, x), shift = parameter(node, 2, "B", channels, x);
  Value mean = statistic(node, 3, "input_mean", channels, x, form), variance = statistic(node, 4, "input_var", channels, x, form);
  FloatAttr moves = form == Form::Inference ? FloatAttr() : node.builder().getF64FloatAttr(momentum);
  Value result = node.create<nn::NormalizeOp>(x.getType(), x, scale, shift, mean, variance, dimsOf(1, 1 + channels.size()),
                                              llvm::APFloat(epsilon), moves, /*unbiased=*/isUnbiased(node, form));
  node.setResult(0, convertTo(node, reshape(node, result, type.getShape()), node.inputType(0).getElementType()));
  for (size_t i = 1; i < node.numResults(); ++i) { // running and saved mean and variance: what they are before the step
    if (node.hasResult(i)) {
      node.aliasResult(i, i % 2 == 1 ? 3 : 4);
    }
  }
}

//===-- Others ------------------------------------------------------------------------------------------------------------------------===//

// Returns a value of each channel for each sample.
Value perSample(const Node &node, Value channels, int64_t samples) {
  int64_t count = shapeOf(channels).front();
  return node.create<nn::BroadcastOp>(typeOf(channels).clone({samples, count}), channels, ArrayRef<int64_t>{1});
}

Value normalize(const Node &node, Value x, Value scale, Value shift, double epsilon) {
  Moments moments(node, x, dimsOf(2, typeOf(x).getRank()));
  return node.create<nn::NormalizeOp>(x.getType(), x, scale, shift, moments.mean, moments.variance, ArrayRef<int64_t>{0, 1},
                                      llvm::APFloat(epsilon), /*momentum=*/FloatAttr(), /*unbiased=*/false);
}

void importInstanceNormalization(Node &node) {
  needRank(node, 3);
  double epsilon = node.getFloat("epsilon", 1e-5);
  Value x = widen(node, node.input(0));
  int64_t samples = shapeOf(x)[0];
  ArrayRef<int64_t> channels = shapeOf(x).slice(1, 1);
  Value scale = perSample(node, parameter(node, 1, "scale", channels, x), samples);
  Value shift = perSample(node, parameter(node, 2, "B", channels, x), samples);
  node.setResult(0, convertTo(node, normalize(node, x, scale, shift, epsilon), node.inputType(0).getElementType()));
}

// Before opset 21 scale and bias are of groups, since then of channels.
void importGroupNormalization(Node &node) {
  needRank(node, 2);
  double epsilon = node.getFloat("epsilon", 1e-5);
  int64_t groups = node.getInt("num_groups", 0);
  if (int64_t stash = node.getInt("stash_type", onnx::TensorProto::FLOAT); stash != onnx::TensorProto::FLOAT) {
    node.fail("attribute \"stash_type\" " + Twine(stash) + " is not supported; use 1, float");
  }
  Value x = widen(node, node.input(0));
  RankedTensorType type = typeOf(x);
  int64_t samples = type.getDimSize(0), channels = type.getDimSize(1);
  if (groups < 1 || channels % groups != 0) {
    node.fail("attribute \"num_groups\" " + Twine(groups) + " does not divide the " + Twine(channels) + " channels");
  }
  Dims shape = {samples, groups, channels / groups};
  llvm::append_range(shape, type.getShape().drop_front(2));
  bool isOfGroups = node.getOpset() < 21;
  int64_t parameters = isOfGroups ? groups : channels;
  Value scale = parameter(node, 1, "scale", {parameters}, x), shift = parameter(node, 2, "bias", {parameters}, x);
  auto ofGroups = [&](Value given, double otherwise) {
    return isOfGroups ? perSample(node, given, samples) : splatConstant(node, type.clone({samples, groups}), otherwise);
  };
  Value y = normalize(node, reshape(node, x, shape), ofGroups(scale, 1), ofGroups(shift, 0), epsilon);
  y = reshape(node, y, type.getShape());
  if (!isOfGroups) {
    auto ofChannels = [&](Value given) { return node.create<nn::BroadcastOp>(type, given, ArrayRef<int64_t>{1}); };
    y = node.create<nn::AddOp>(node.create<nn::MulOp>(y, ofChannels(scale)), ofChannels(shift));
  }
  node.setResult(0, convertTo(node, y, node.inputType(0).getElementType()));
}

// (x - mean) / (standard deviation + 1e-9)
void importMeanVarianceNormalization(Node &node) {
  constexpr double kEpsilon = 1e-9;
  Value x = widen(node, node.input(0));
  RankedTensorType type = typeOf(x);
  Dims axes = node.hasAttribute("axes") ? Dims(node.getInts("axes")) : Dims{0, 2, 3};
  for (int64_t &axis : axes) {
    axis = node.normalizeAxis(axis, type.getRank());
  }
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    node.fail("attribute \"axes\" names an axis twice");
  }
  Dims others;
  for (int64_t d : dimsOf(0, type.getRank())) {
    if (!llvm::is_contained(axes, d)) {
      others.push_back(d);
    }
  }
  Moments moments(node, x, axes);
  auto repeated = [&](Value statistic) { return node.create<nn::BroadcastOp>(type, statistic, others); };
  Value root = node.create<nn::SqrtOp>(moments.variance);
  Value divisor = node.create<nn::AddOp>(root, splatConstant(node, typeOf(root), kEpsilon));
  Value centred = node.create<nn::SubOp>(x, repeated(moments.mean));
  Value result = node.create<nn::DivOp>(centred, repeated(divisor));
  node.setResult(0, convertTo(node, result, node.inputType(0).getElementType()));
}

constexpr RegistryRow kChannelNormalizationRows[] = {{"BatchNormalization", importBatchNormalization, Accepts::Floats},
                                                     {"GroupNormalization", importGroupNormalization, Accepts::Floats},
                                                     {"InstanceNormalization", importInstanceNormalization, Accepts::Floats},
                                                     {"MeanVarianceNormalization", importMeanVarianceNormalization, Accepts::Floats}};

} // namespace

ArrayRef<RegistryRow> channelNormalizationRows() {
  return kChannelNormalizationRows;
}

} // namespace ashlar::frontend

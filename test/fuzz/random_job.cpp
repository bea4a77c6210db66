// SPDX-License-Identifier: Apache-2.0
//
// Random job files; see random_job.h. Weights and samples are f32 numbers, so that reading them rounds nothing.

#include "test/fuzz/random_job.h"

#include "compiler/frontend/onnx_proto.h"
#include "test/fuzz/random_layout.h"
#include "test/fuzz/random_optimizer.h"

#include "llvm/Support/FormatVariadic.h"

#include <google/protobuf/text_format.h>

using llvm::formatv;

namespace ashlar::fuzz {

namespace {

constexpr int64_t kMaxRanks = 4, kMaxSize = 9;
constexpr int64_t kMaxSide = 4;          // of an image behind a transform
constexpr int64_t kMaxImage = 12;        // elements behind all of them
constexpr int64_t kMaxPipelineRanks = 8; // of all stages

std::vector<double> numbers(Dice &dice, int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(dice.real()));
  }
  return values;
}

//===-- The model ---------------------------------------------------------------------------------------------------------------------===//

void addParameter(onnx::GraphProto &graph, const std::string &name, std::vector<int64_t> dims, const std::vector<double> &values) {
  onnx::TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t dim : dims) {
    tensor.add_dims(dim);
  }
  for (double value : values) {
    tensor.add_float_data(static_cast<float>(value));
  }
}

onnx::NodeProto &addNode(onnx::GraphProto &graph, const std::string &op, std::vector<std::string> inputs, const std::string &output) {
  onnx::NodeProto &node = *graph.add_node();
  node.set_op_type(op);
  for (const std::string &input : inputs) {
    node.add_input(input);
  }
  node.add_output(output);
  return node;
}

void addText(onnx::NodeProto &node, const std::string &name, const std::string &value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}

void addFlag(onnx::NodeProto &node, const std::string &name, int64_t value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

// Adds a tensor with a symbolic first dim, or a scalar without `size`.
void describe(onnx::ValueInfoProto &value, const std::string &name, int64_t size) {
  value.set_name(name);
  onnx::TypeProto::Tensor &type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape();
  if (size != 0) {
    type.mutable_shape()->add_dim()->set_dim_param("batch");
    type.mutable_shape()->add_dim()->set_dim_value(size);
  }
}

std::vector<double> transposed(const std::vector<double> &matrix, int64_t rows, int64_t columns) {
  std::vector<double> result;
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      result.push_back(matrix[row * columns + column]);
    }
  }
  return result;
}

// Adds a layer as Gemm, or as MatMul and Add of a transposed weight; returns its output.
std::string addLayer(onnx::GraphProto &graph, const Layer &layer, bool isTransposed, const std::string &input) {
  std::string weight = layer.name + ".weight", bias = layer.name + ".bias", sum = layer.name + ".sum";
  bool hasBias = !layer.bias.empty();
  if (isTransposed) {
    addParameter(graph, weight, {layer.inputs, layer.outputs}, transposed(layer.weight, layer.outputs, layer.inputs));
    addNode(graph, "MatMul", {input, weight}, hasBias ? layer.name + ".product" : sum);
    if (hasBias) {
      addNode(graph, "Add", {layer.name + ".product", bias}, sum);
    }
  } else {
    addParameter(graph, weight, {layer.outputs, layer.inputs}, layer.weight);
    onnx::NodeProto &gemm =
        addNode(graph, "Gemm", hasBias ? std::vector<std::string>{input, weight, bias} : std::vector<std::string>{input, weight}, sum);
    addFlag(gemm, "transB", 1);
  }
  if (hasBias) {
    addParameter(graph, bias, {layer.outputs}, layer.bias);
  }
  constexpr const char *kOps[] = {"", "Tanh", "Sigmoid", "Relu"};
  std::string op = kOps[static_cast<int>(layer.activation)];
  if (op.empty()) {
    return sum;
  }
  addNode(graph, op, {sum}, layer.name + ".out");
  return layer.name + ".out";
}

// Adds a loss of the model's own, of the labels "t"; returns its output.
std::string addEntropy(onnx::GraphProto &graph, const TrainingJob &training, const std::string &scores) {
  onnx::ValueInfoProto &labels = *graph.add_input();
  labels.set_name("t");
  onnx::TypeProto::Tensor &type = *labels.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::INT64);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  std::vector<std::string> inputs = {scores, "t"};
  if (!training.rows.ofClasses.empty()) {
    addParameter(graph, "class_weights", {static_cast<int64_t>(training.rows.ofClasses.size())}, training.rows.ofClasses);
    inputs.push_back("class_weights");
  }
  onnx::NodeProto &node = addNode(graph, "SoftmaxCrossEntropyLoss", inputs, "own_loss");
  addText(node, "reduction", training.rows.isSum ? "sum" : "mean");
  if (training.rows.ignored) {
    addFlag(node, "ignore_index", *training.rows.ignored);
  }
  return "own_loss";
}

std::string modelOf(const RandomJob &job, std::string &output) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto &graph = *model.mutable_graph();
  graph.set_name("fuzz");
  const TrainingJob &training = job.training;
  describe(*graph.add_input(), "x", training.layers.front().inputs);
  output = "x";
  for (size_t l = 0; l < training.layers.size(); ++l) {
    output = addLayer(graph, training.layers[l], job.isTransposed[l], output);
  }
  int64_t size = training.layers.back().outputs;
  if (training.loss == LossKind::LogLikelihood) {
    addFlag(addNode(graph, "LogSoftmax", {output}, "log"), "axis", -1);
    output = "log";
  } else if (training.loss == LossKind::MeanSquare) {
    addNode(graph, "Mul", {output, output}, "square");
    addFlag(addNode(graph, "ReduceMean", {"square"}, "own_loss"), "keepdims", 0);
    output = "own_loss";
    size = 0;
  } else if (training.loss == LossKind::ModelEntropy) {
    output = addEntropy(graph, training, output);
    size = 0;
  }
  describe(*graph.add_output(), output, size);
  return model.SerializeAsString();
}

//===-- The job -----------------------------------------------------------------------------------------------------------------------===//

// Draws a job, and writes its text as it goes.
class Generator {
public:
  explicit Generator(uint64_t seed)
      : dice(seed), ownerDice(seed * 5 + 3), pipelineDice(seed * 13 + 11), imageDice(seed * 17 + 5), layoutDice(seed * 19 + 7),
        lossDice(seed * 23 + 7), gradientDice(seed * 29 + 13) {}

  RandomJob generate() {
    drawPipeline();
    drawImage();
    drawLayers();
    drawLoss();
    drawSamples();
    drawOptimizer();
    drawPrecision();
    drawPlacement();
    drawKnobs();
    drawFusion();
    std::string output;
    result.model = modelOf(result, output);
    writeLoss(output);
    writeDataset();
    result.job = std::move(text);
    return std::move(result);
  }

private:
  // Gives one job in three stages. The reference knows nothing of them: they make the same step.
  void drawPipeline() {
    if (!pipelineDice.oneIn(3)) {
      return;
    }
    stages = 2 + pipelineDice.roll(3);
    const std::string schedule = pipelineDice.pick(std::vector<std::string>{"GPIPE", "ONE_F_ONE_B", "INTERLEAVED", "ZERO_BUBBLE", ""});
    chunks = schedule == "INTERLEAVED" ? 2 : 1;
    microBatches = stages + pipelineDice.roll(3);
    result.ranks = stages;
    text += formatv("pipeline {{ stages: {0} micro_batches: {1}", stages, microBatches);
    text += schedule.empty() ? "" : " schedule: " + schedule;
    text += chunks == 1 ? " }\n" : formatv(" chunks: {0} }\n", chunks).str();
  }

  bool hasPipeline() const { return stages > 1; }

  // Gives one job in three images, with up to five transforms.
  void drawImage() {
    if (!imageDice.oneIn(3)) {
      return;
    }
    hasImages = true;
    imageChannels = imageDice.roll(4); // 0: gray, without a dim of its own
    int64_t height = 1 + imageDice.roll(5), width = 1 + imageDice.roll(5);
    training.sampleShape = {height, width, std::max<int64_t>(imageChannels, 1)};
    for (int64_t count = imageDice.roll(5); count > 0; --count) {
      addImageTransform(height, width);
    }
    // Many inputs make large gradients, with which a loss grows beyond f32.
    if (height * width * training.sampleShape[2] > kMaxImage) {
      SampleTransform smaller{SampleTransform::Resize};
      smaller.height = height = std::min<int64_t>(height, 2);
      smaller.width = width = std::min<int64_t>(width, 2);
      addTransform(smaller, formatv("resize {{ height: {0} width: {1} }", height, width));
    }
    if (imageChannels > 0 && imageDice.oneIn(2)) {
      hasLayout = layoutDice.oneIn(2); // the same, and the random numbers of transforms behind it stay
      addTransform({SampleTransform::ChannelsFirst}, hasLayout ? "rescale {}" : "hwc2chw {}");
      addChannelScale(imageDice.oneIn(2));
    }
    imageElements = height * width * training.sampleShape[2];
  }

  // Adds one, and changes the size of the image to that behind it.
  void addImageTransform(int64_t &height, int64_t &width) {
    SampleTransform transform;
    switch (imageDice.roll(4)) {
    case 0: {
      transform.kind = SampleTransform::Crop;
      transform.padding = imageDice.roll(3);
      transform.height = imageDice.oneIn(3) ? height : 1 + imageDice.roll(std::min<int64_t>(height + 2 * transform.padding, kMaxSide));
      transform.width = imageDice.oneIn(3) ? width : 1 + imageDice.roll(std::min<int64_t>(width + 2 * transform.padding, kMaxSide));
      std::string size = transform.height == height ? "" : formatv(" height: {0}", transform.height).str();
      size += transform.width == width ? "" : formatv(" width: {0}", transform.width).str();
      height = transform.height;
      width = transform.width;
      return addTransform(transform, formatv("random_crop {{{0} padding: {1} }", size, transform.padding));
    }
    case 1:
      transform.kind = SampleTransform::Flip;
      transform.probability = imageDice.roll(5) / 4.0;
      return addTransform(transform, formatv("random_horizontal_flip {{ probability: {0:f8} }", transform.probability));
    case 2:
      transform.kind = SampleTransform::Resize;
      transform.height = height = 1 + imageDice.roll(kMaxSide);
      transform.width = width = 1 + imageDice.roll(kMaxSide);
      return addTransform(transform, formatv("resize {{ height: {0} width: {1} }", height, width));
    default:
      return addChannelScale(imageChannels > 0);
    }
  }

  // Adds a normalization that makes no number larger, with one mean and std or those of each channel.
  void addChannelScale(bool hasEach) {
    SampleTransform transform{SampleTransform::Scale};
    std::string means, deviations;
    for (int64_t c = 0, count = hasEach ? imageChannels : 1; c < count; ++c) {
      double mean = imageDice.roll(5) / 8.0, deviation = 1 + imageDice.roll(3) / 4.0;
      transform.scale.push_back(1 / deviation);
      transform.shift.push_back(-mean / deviation);
      means += formatv("{0}{1:f8}", c == 0 ? "" : ", ", mean);
      deviations += formatv("{0}{1:f8}", c == 0 ? "" : ", ", deviation);
    }
    addTransform(transform, formatv("normalize {{ mean: [{0}] std: [{1}] }", means, deviations));
  }

  void addTransform(SampleTransform transform, const std::string &written) {
    training.transforms.push_back(std::move(transform));
    transforms += " transforms { " + written + " }";
  }

  void drawLayers() {
    int64_t size = 1 + dice.roll(kMaxSize);
    size = hasImages ? imageElements : size;
    if (!hasImages) {
      training.sampleShape = {1, 1, size};
    }
    for (int64_t l = 0, count = std::max(1 + dice.roll(3), hasPipeline() ? stages * chunks : 0); l < count; ++l) {
      Layer layer;
      layer.name = "fc" + std::to_string(l);
      layer.inputs = size;
      layer.outputs = size = 2 + dice.roll(kMaxSize);
      layer.weight = numbers(dice, layer.inputs * layer.outputs);
      layer.bias = numbers(dice, dice.oneIn(4) ? 0 : layer.outputs);
      layer.activation = l + 1 == count ? Activation::None : static_cast<Activation>(dice.roll(4));
      layer.weightIsFrozen = l > 0 && dice.oneIn(5);
      if (layer.weightIsFrozen) {
        text += formatv("frozen: \"{0}.weight\"\n", layer.name);
      }
      training.layers.push_back(std::move(layer));
      result.isTransposed.push_back(dice.oneIn(3));
    }
  }

  void drawLoss() {
    training.loss = static_cast<LossKind>(dice.roll(4));
    if (training.loss == LossKind::CrossEntropy && lossDice.oneIn(2)) {
      training.loss = LossKind::ModelEntropy;
      training.rows.isSum = lossDice.oneIn(3);
      for (int64_t c = 0, count = lossDice.oneIn(2) ? training.layers.back().outputs : 0; c < count; ++c) {
        training.rows.ofClasses.push_back((1 + lossDice.roll(8)) / 4.0);
      }
    }
    if (hasLabels() && lossDice.oneIn(2)) { // one that is no class, or one that is
      training.rows.ignored = lossDice.oneIn(2) ? -100 : lossDice.roll(training.layers.back().outputs);
    }
    hasOneHot = training.loss == LossKind::SquaredError && imageDice.oneIn(3);
  }

  bool hasLabels() const {
    return training.loss == LossKind::CrossEntropy || training.loss == LossKind::LogLikelihood || training.loss == LossKind::ModelEntropy;
  }

  void drawSamples() {
    training.batch = hasPipeline() ? microBatches * (1 + pipelineDice.roll(3)) : 1 + dice.roll(8);
    text += formatv("global_batch: {0}\n", training.batch);
    // The reference knows nothing of it: micro-batches make the same step.
    if (int64_t parts = 2 + dice.roll(3); training.batch % parts == 0 && dice.oneIn(2) && !hasPipeline()) {
      text += formatv("accumulate: {0}\n{1}", parts,
                      dice.pick(std::vector<llvm::StringRef>{"", "gradient_sync: STEP\n", "gradient_sync: MICRO_BATCH\n"}));
    }
    training.train.count = training.batch * (1 + dice.roll(4)) + dice.roll(training.batch);
    training.evaluation.count = 1 + dice.roll(3 * training.batch);
    inputElement = dice.pick(std::vector<std::string>{"f32", "f64", "u8"});
    drawTransforms();
    drawSplit(training.train, "train");
    drawSplit(training.evaluation, "eval");
  }

  // Bytes are brought to about [-1, 1). Of images that happens behind their own transforms: padding is 0 ahead of it.
  void drawTransforms() {
    if (inputElement == "u8") {
      if (training.transforms.empty() && imageDice.oneIn(3)) {
        addTransform({}, "type_cast { type: I32 }"); // holds every byte
      }
      addRescale(1 / 128.0, -1);
    }
    for (int64_t count = dice.roll(3); count > 0; --count) {
      if (dice.oneIn(2)) {
        addRescale(0.5 + dice.roll(4) / 4.0, dice.roll(5) / 4.0 - 0.5);
      } else {
        double mean = dice.roll(5) / 8.0, deviation = 0.5 + dice.roll(4) / 4.0;
        addTransform({SampleTransform::Scale, {1 / deviation}, {-mean / deviation}},
                     formatv("normalize {{ mean: {0:f8} std: {1:f8} }", mean, deviation));
      }
    }
  }

  void addRescale(double scale, double shift) {
    addTransform({SampleTransform::Scale, {scale}, {shift}}, formatv("rescale {{ scale: {0:f8} shift: {1:f8} }", scale, shift));
  }

  void drawSplit(Samples &samples, const std::string &split) {
    std::vector<int64_t> shape = training.sampleShape;
    int64_t inputs = shape[0] * shape[1] * shape[2], outputs = training.layers.back().outputs;
    samples.inputs = numbers(dice, samples.count * inputs);
    if (inputElement == "u8") {
      for (double &value : samples.inputs) {
        value = dice.roll(256);
      }
    }
    shape.insert(shape.begin(), samples.count);
    if (hasImages && imageChannels == 0) {
      shape.pop_back();
    }
    result.data["x_" + split] = {inputElement, hasImages ? shape : std::vector<int64_t>{samples.count, inputs}, samples.inputs};
    if (hasLabels()) {
      std::vector<double> labels;
      for (int64_t i = 0; i < samples.count; ++i) {
        samples.labels.push_back(dice.roll(outputs));
      }
      leaveOut(samples, split == "train" ? training.batch : samples.count);
      labels.assign(samples.labels.begin(), samples.labels.end());
      const std::string element = dice.pick(std::vector<std::string>{"u8", "i32", "i64"});
      const bool isSigned = training.rows.ignored && *training.rows.ignored < 0;
      result.data["t_" + split] = {element == "u8" && isSigned ? "i32" : element, {samples.count}, labels};
    } else if (training.loss == LossKind::SquaredError && hasOneHot) {
      std::vector<double> labels;
      samples.targets.assign(samples.count * outputs, 0);
      for (int64_t i = 0; i < samples.count; ++i) {
        labels.push_back(imageDice.roll(outputs));
        samples.targets[i * outputs + static_cast<int64_t>(labels.back())] = 1;
      }
      result.data["t_" + split] = {imageDice.pick(std::vector<std::string>{"u8", "i32", "i64"}), {samples.count}, labels};
    } else if (training.loss == LossKind::SquaredError) {
      samples.targets = numbers(dice, samples.count * outputs);
      result.data["t_" + split] = {"f32", {samples.count, outputs}, samples.targets};
    }
  }

  // Leaves rows out, but fewer than `atOnce`: of so many at least one counts.
  void leaveOut(Samples &samples, int64_t atOnce) {
    if (!training.rows.ignored) {
      return;
    }
    const int64_t ignored = *training.rows.ignored, other = ignored == 0 ? 1 : 0; // there are two classes at least
    int64_t left = lossDice.roll(atOnce);
    for (int64_t &label : samples.labels) {
      const bool isLeftOut = left > 0 && (label == ignored || lossDice.oneIn(2));
      label = isLeftOut ? ignored : label == ignored ? other : label;
      left -= isLeftOut;
    }
  }

  void drawOptimizer() {
    training.optimizer = randomOptimizer(dice);
    std::string printed;
    google::protobuf::TextFormat::PrintToString(training.optimizer, &printed);
    text += "optimizer {\n" + printed + "}\n";
    for (const Layer &layer : training.layers) {
      drawDecay(layer, "weight", !layer.weightIsFrozen);
      drawDecay(layer, "bias", !layer.bias.empty());
    }
  }

  // Gives one parameter in four a weight decay of its own, by a rule.
  void drawDecay(const Layer &layer, const std::string &parameter, bool isTrained) {
    if (isTrained && dice.oneIn(4)) {
      double decay = dice.roll(4) / 16.0;
      training.decays[layer.name + "." + parameter] = decay;
      text += formatv("rules {{ match: \"{0}.{1}\" weight_decay: {2:f8} }\n", layer.name, parameter, decay);
    }
  }

  void drawPrecision() {
    int64_t kind = dice.roll(8);
    result.isNarrow = kind < 3;
    // Sums of f32 add some roundings; in bf16 and f16 a number is rounded after each op.
    result.unit = kind < 2 ? 0x1p-7 : kind == 2 ? 0x1p-10 : 0x1p-20;
    text += kind < 2 ? "precision: BF16_MIXED\n" : kind == 2 ? "precision: F16_MIXED\n" : kind == 3 ? "precision: F32\n" : "";
    if (result.isNarrow && gradientDice.oneIn(2)) {
      text += "gradient_reduce_precision: BF16\n";
      result.unit = 0x1p-7;
    }
    if (kind == 2) {
      text += formatv("loss_scale {{ initial: {0} growth_steps: {1} }\n", 1 << dice.roll(8), 3 + dice.roll(20));
    }
  }

  void drawPlacement() {
    const int64_t most = hasPipeline() ? kMaxPipelineRanks / stages : kMaxRanks; // on the mesh, which is that of a stage
    int64_t kind = dice.roll(3), dp = 1 + dice.roll(most), tp = 1 + dice.roll(most / dp);
    if (kind == 0) {
      return;
    }
    hasMesh = true;
    result.ranks = stages * (kind == 1 ? dp : dp * tp);
    if (kind == 1) {
      text += std::string(dice.oneIn(2) ? "mode: DATA_PARALLEL\n" : "") + formatv("mesh {{ axes {{ name: \"dp\" size: {0} } }\n", dp).str();
      drawOwners(dp);
      return;
    }
    text += formatv("mode: SEMI_AUTO\nmesh {{ axes {{ name: \"dp\" size: {0} } axes {{ name: \"tp\" size: {1} } }\n", dp, tp);
    text += "rules { match: \"x\" layout: \"[{dp}, {}]\" }\n";
    text += formatv("rules {{ match: \"{0}.weight\" layout: \"{1}\" }\n", dice.pick(training.layers).name,
                    dice.oneIn(2) ? "[{tp}, {}]" : "[{}, {tp}]");
    if (hasPipeline() && pipelineDice.oneIn(2)) {
      text += formatv("optimizer_parallel {{ level: {0} threshold_kb: 0 }\n", 1 + pipelineDice.roll(3));
    }
  }

  // Weights grouping, for two in three jobs that can have it. The reference knows nothing of it: the numbers are the same.
  void drawOwners(int64_t ranks) {
    int64_t trained = 0;
    for (const Layer &layer : training.layers) {
      trained += !layer.weightIsFrozen + !layer.bias.empty();
    }
    bool isPossible = (training.optimizer.has_adamw() || training.optimizer.has_lamb()) && trained >= ranks;
    if (isPossible && !hasPipeline() && !ownerDice.oneIn(3)) {
      text += "optimizer_parallel {}\n";
    }
  }

  // Fusion ids of layers, or modes, of a job with a mesh.
  void drawFusion() {
    if (!hasMesh || dice.oneIn(3)) {
      return;
    }
    if (dice.oneIn(2)) {
      for (const Layer &layer : training.layers) {
        if (!layer.weightIsFrozen || !layer.bias.empty()) { // a rule has to match a parameter that is trained
          text += formatv("rules {{ match: \"{0}.*\" comm_fusion: {1} }\n", layer.name, dice.roll(3));
        }
      }
      return;
    }
    const std::vector<std::string> modes = {"mode: AUTO_BUCKETS", "mode: SIZE", "mode: INDEX index: 1", "mode: INDEX index: [2, 3]", ""};
    text += "comm_fusion {";
    for (const char *kind : {"all_reduce", "all_gather", "reduce_scatter"}) {
      if (kind == std::string("all_reduce") || dice.oneIn(2)) {
        text += formatv(" {0} {{ {1} }", kind, dice.pick(modes));
      }
    }
    text += " }\n";
  }

  void drawKnobs() {
    if (dice.oneIn(2)) {
      training.epochs = 1 + dice.roll(3);
      text += formatv("epochs: {0}\n", training.epochs);
    }
    if (!dice.oneIn(3)) {
      training.logEvery = 1 + dice.roll(4);
      text += formatv("log_every: {0}\n", training.logEvery);
    }
    if (dice.oneIn(2)) {
      training.seed = dice.roll(int64_t(1) << 40);
      text += formatv("seed: {0}\n", training.seed);
    }
  }

  void writeLoss(const std::string &output) {
    constexpr const char *kText[] = {"softmax_cross_entropy {{ logits: \"{0}\" labels: \"t\"{1} }",
                                     "mean_squared_error {{ prediction: \"{0}\" target: \"t\" }",
                                     "negative_log_likelihood {{ log_probabilities: \"{0}\" labels: \"t\"{1} }",
                                     "model_output {{ tensor: \"{0}\" }", "model_output {{ tensor: \"{0}\" }"};
    const std::string ignored = training.rows.ignored ? formatv(" ignore_index: {0}", *training.rows.ignored).str() : "";
    text += "loss { " + formatv(kText[static_cast<int>(training.loss)], output, ignored).str() + " }\n";
  }

  void writeDataset() {
    training.shuffles = !dice.oneIn(3);
    text += "dataset {\n  npy {}\n";
    text += !training.shuffles ? "  shuffle: false\n" : dice.oneIn(2) ? "  shuffle: true\n" : "";
    if (dice.oneIn(3)) {
      training.repeat = 1 + dice.roll(3);
      text += formatv("  repeat: {0}\n", training.repeat);
    }
    bool divides = training.train.count % training.batch == 0;
    text += dice.oneIn(2) ? "" : divides && dice.oneIn(2) ? "  drop_remainder: false\n" : "  drop_remainder: true\n";
    text += std::string("  features { column: \"x\" tensor: \"x\"") + (hasLayout ? " layout: NHWC" : "") + transforms + " }\n";
    const std::string spread = hasOneHot ? formatv(" transforms {{ one_hot {{ classes: {0} } }", training.layers.back().outputs).str() : "";
    text += training.loss == LossKind::MeanSquare ? "" : "  features { column: \"t\" tensor: \"t\"" + spread + " }\n";
    text += "}\n";
  }

  Dice dice, ownerDice, pipelineDice, imageDice, layoutDice, lossDice, gradientDice;
  int64_t stages = 1, chunks = 1, microBatches = 1;
  RandomJob result;
  TrainingJob &training = result.training;
  std::string text, transforms, inputElement;
  bool hasMesh = false, hasImages = false, hasLayout = false, hasOneHot = false;
  int64_t imageChannels = 0, imageElements = 0;
};

} // namespace

RandomJob randomJob(uint64_t seed) {
  return Generator(seed).generate();
}

} // namespace ashlar::fuzz

// SPDX-License-Identifier: Apache-2.0
//
// The facts as text. What is known only by a trial says so.

#include "compiler/driver/inspection.h"

#include "compiler/report/units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;
using llvm::StringRef;

namespace ashlar::driver {
namespace {

using frontend::Inspection;
using frontend::LossGuess;
using frontend::ModelFacts;

// Writes paragraphs: the subject in a column of its own, a line each of what there is.
class Paragraphs {
public:
  void add(StringRef subject, std::vector<std::string> lines) {
    for (std::string &line : lines) {
      std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?'); // names of the model
      text += formatv("{0,-12} {1}\n", subject, line);
      subject = "";
    }
  }
  std::string text;
};

std::string describe(const Inspection::Tensor &tensor) {
  return tensor.name + " [" + llvm::join(tensor.dims, ", ") + "] of " + tensor.element;
}

std::vector<std::string> describeAll(llvm::ArrayRef<Inspection::Tensor> tensors) {
  std::vector<std::string> lines;
  for (const Inspection::Tensor &tensor : tensors) {
    lines.push_back(describe(tensor));
  }
  return lines.empty() ? std::vector<std::string>{"none"} : lines;
}

// "2 of 12 B", and a line each.
std::vector<std::string> listInitializers(llvm::ArrayRef<ModelFacts::Initializer> initializers) {
  int64_t bytes = 0;
  std::vector<std::string> lines = {""};
  for (const ModelFacts::Initializer &each : initializers) {
    bytes += each.bytes;
    lines.push_back(each.name + " " + each.type + ", " + report::bytesText(each.bytes) + (each.reason.empty() ? "" : ": " + each.reason));
  }
  lines.front() = initializers.empty() ? "none" : std::to_string(initializers.size()) + " of " + report::bytesText(bytes);
  return lines;
}

std::string sizesText(const Inspection &model) {
  std::vector<std::string> sizes;
  if (model.batch) {
    sizes.push_back("global_batch " + std::to_string(*model.batch));
  }
  for (const auto &[name, size] : model.dims) {
    sizes.push_back(name + " " + std::to_string(size));
  }
  return llvm::join(sizes, ", ");
}

// Returns a string of the text format.
std::string quoted(StringRef text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out + "\"";
}

// Returns the name of a column that can be part of a file's name.
std::string columnOf(StringRef tensor) {
  std::string column = tensor.str();
  std::replace_if(column.begin(), column.end(), [](char c) { return !llvm::isAlnum(c) && c != '_' && c != '-' && c != '.'; }, '_');
  return column;
}

std::string lossText(const LossGuess &loss) {
  std::string tensor = quoted(loss.tensor), labels = quoted(loss.labels);
  switch (loss.kind) {
  case LossGuess::Kind::ModelOutput:
    return "model_output { tensor: " + tensor + " }";
  case LossGuess::Kind::NegativeLogLikelihood:
    return "negative_log_likelihood { log_probabilities: " + tensor + " labels: " + labels + " }";
  case LossGuess::Kind::MeanSquaredError:
    return "mean_squared_error { prediction: " + tensor + " target: " + labels + " }";
  case LossGuess::Kind::SoftmaxCrossEntropy:
    return "softmax_cross_entropy { logits: " + tensor + " labels: " + labels + " }";
  case LossGuess::Kind::None:
    break;
  }
  llvm_unreachable("suggestJob() lets no other pass");
}

// One column of the data set: "#   x_train.npy   (samples, 784) f32".
struct Column {
  std::string tensor, text;
};

Column makeColumn(StringRef tensor, llvm::ArrayRef<int64_t> sample, StringRef what) {
  std::string dims;
  for (int64_t size : sample) {
    dims += ", " + std::to_string(size);
  }
  return {tensor.str(), formatv("#   {0}_train.npy (samples{1}) {2}", columnOf(tensor), dims, what)};
}

// What a feature may feed: a tensor with samples in its first dim.
std::vector<Column> listColumns(const Inspection &model) {
  std::vector<Column> columns;
  for (const Inspection::Tensor &input : model.inputs) {
    columns.push_back(
        makeColumn(input.name, llvm::ArrayRef(input.shape).drop_front(std::min<size_t>(1, input.shape.size())), input.element));
  }
  llvm::ArrayRef<int64_t> shape = model.loss.shape;
  if (model.loss.kind == LossGuess::Kind::MeanSquaredError) {
    columns.push_back(makeColumn(model.loss.labels, shape.drop_front(std::min<size_t>(1, shape.size())), "targets"));
  } else if (model.loss.kind != LossGuess::Kind::ModelOutput) {
    std::string classes = shape.empty() ? "" : formatv(", classes 0 to {0}", shape.back() - 1).str();
    columns.push_back(
        makeColumn(model.loss.labels, shape.size() < 2 ? shape.take_front(0) : shape.drop_back().drop_front(), "i32" + classes));
  }
  return columns;
}

} // namespace

std::string inspectionText(const Inspection &model) {
  Paragraphs out;
  out.add("model", {model.name + (model.producer.empty() ? "" : " by " + model.producer) + ", opset " + llvm::join(model.opsets, ", ")});
  out.add("inputs", describeAll(model.inputs));
  out.add("outputs", describeAll(model.outputs));
  if (std::string sizes = sizesText(model); !sizes.empty()) {
    out.add("tried with", {sizes + "; the job's global_batch and dims say which sizes hold"});
  }
  out.add("parameters", listInitializers(model.facts.parameters));
  if (!model.facts.states.empty()) {
    out.add("statistics", listInitializers(model.facts.states));
  }
  out.add("buffers", listInitializers(model.facts.buffers));
  std::vector<std::string> copies;
  for (const frontend::CopiedWeight &copy : model.facts.copies) {
    copies.push_back(copy.copy + " holds the numbers of " + copy.original + (copy.isTransposed ? ", transposed" : ""));
  }
  out.add("copies", copies);
  std::vector<std::string> ops;
  for (const auto &[op, count] : model.ops) {
    ops.push_back(std::to_string(count) + " " + op);
  }
  out.add("ops", {ops.empty() ? "none" : llvm::join(ops, ", ")});
  std::vector<std::string> faults = model.facts.faults;
  if (faults.empty()) {
    faults = {model.fault.empty() ? "nothing" : model.fault};
  }
  out.add("refused", faults);
  return out.text;
}

llvm::Expected<std::string> suggestJob(const Inspection &model) {
  if (!model.fault.empty()) {
    return llvm::createStringError("no job trains this model, which is refused: " + model.fault);
  }
  if (model.loss.kind == LossGuess::Kind::None || !model.batch) {
    return llvm::createStringError(model.batch ? "no job trains this model: it has no output of floats that a loss could be of"
                                               : "no job trains this model: no input has a dim for samples");
  }
  std::vector<Column> columns = listColumns(model);
  std::string text =
      "# A job for " + columnOf(model.name) + " to start from: the loss is a guess, see docs/semantics.md for all that can be said.\n";
  text += "mode: DATA_PARALLEL\nmesh { axes { name: \"dp\" size: 1 } }\n";
  text += formatv("global_batch: {0}\n", *model.batch);
  for (const auto &[name, size] : model.dims) {
    text += formatv("dims {{ name: {0} size: {1} }\n", quoted(name), size);
  }
  for (const frontend::CopiedWeight &copy : model.facts.copies) {
    text += formatv("ties {{ parameter: {0} to: {1} }\n", quoted(copy.copy), quoted(copy.original));
  }
  text += "loss { " + lossText(model.loss) + " }\noptimizer { adamw {} learning_rate: 0.001 }\n";
  text += "# Files below --data DIR; --eval reads *_eval.npy beside them.\n";
  for (const Column &column : columns) {
    text += column.text + "\n";
  }
  text += "dataset {\n  npy {}\n";
  for (const Column &column : columns) {
    text += formatv("  features {{ column: {0} tensor: {1} }\n", quoted(columnOf(column.tensor)), quoted(column.tensor));
  }
  return text + "}\n";
}

} // namespace ashlar::driver

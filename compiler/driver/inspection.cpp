// SPDX-License-Identifier: Apache-2.0
//
// The facts as text. What is known only by a trial says so.

#include "compiler/driver/inspection.h"

#include "compiler/command/diagnostics.h"
#include "compiler/command/input.h"
#include "compiler/frontend/inspection/inspect.h"
#include "compiler/job/job.h"
#include "compiler/report/units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::formatv;
using llvm::StringRef;
using namespace mlir;

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
  for (const job::Dim &dim : model.dims) {
    const std::string name = dim.has_name() ? dim.name() : "dim " + std::to_string(dim.dim()) + " of " + dim.input();
    sizes.push_back(name + " " + std::to_string(dim.size()));
  }
  return llvm::join(sizes, ", ");
}

// Returns what stands before the reasons why a model is refused: where they depend on sizes that were chosen here, these and the remedy.
std::string refusedWith(const Inspection &model) {
  return !model.fault.empty() && model.dependsOnSizes
             ? "with the sizes that were tried, which may not be the model's; give its own in a job (--job): " + sizesText(model) + ": "
             : "";
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

// Whether a sample has many labels, of tokens or pixels: some of them are padding, which data sets mark with torch's default of
// ignore_index.
bool hasPadding(const LossGuess &loss) {
  return loss.shape.size() > 2;
}

std::string lossText(const LossGuess &loss) {
  std::string tensor = quoted(loss.tensor), labels = quoted(loss.labels) + (hasPadding(loss) ? " ignore_index: -100" : "");
  switch (loss.kind) {
  case LossGuess::Kind::ModelOutput:
    return "model_output { tensor: " + tensor + " }";
  case LossGuess::Kind::NegativeLogLikelihood:
    return "negative_log_likelihood { log_probabilities: " + tensor + " labels: " + labels + " }";
  case LossGuess::Kind::MeanSquaredError:
    return "mean_squared_error { prediction: " + tensor + " target: " + quoted(loss.labels) + " }";
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
std::vector<Column> listColumns(const Inspection &model, const job::Job &given) {
  std::vector<Column> columns;
  for (const Inspection::Tensor &input : model.inputs) {
    if (llvm::any_of(given.inputs(), [&](const job::KnownInput &known) { return known.name() == input.name; })) {
      continue;
    }
    columns.push_back(
        makeColumn(input.name, llvm::ArrayRef(input.shape).drop_front(std::min<size_t>(1, input.shape.size())), input.element));
  }
  llvm::ArrayRef<int64_t> shape = model.loss.shape;
  if (model.loss.kind == LossGuess::Kind::MeanSquaredError) {
    columns.push_back(makeColumn(model.loss.labels, shape.drop_front(std::min<size_t>(1, shape.size())), "targets"));
  } else if (model.loss.kind != LossGuess::Kind::ModelOutput) {
    std::string classes = shape.empty() ? "" : formatv(", classes 0 to {0}", shape.back() - 1).str();
    classes += hasPadding(model.loss) ? ", or -100: not counted" : "";
    columns.push_back(
        makeColumn(model.loss.labels, shape.size() < 2 ? shape.take_front(0) : shape.drop_back().drop_front(), "i32" + classes));
  }
  return columns;
}

// Returns one paragraph a subject.
std::string inspectionText(const Inspection &model) {
  Paragraphs out;
  out.add("model", {model.name + (model.producer.empty() ? "" : " by " + model.producer) + ", opset " + llvm::join(model.opsets, ", ")});
  out.add("inputs", describeAll(model.inputs));
  out.add("outputs", describeAll(model.outputs));
  if (std::string sizes = sizesText(model); !sizes.empty()) {
    out.add("tried with", {sizes + "; the job's global_batch and dims fix sizes"});
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
  std::vector<std::string> merged;
  for (const frontend::MergedParameter &each : model.facts.merged) {
    merged.push_back(each.initializer + (each.isUntied ? ", taken apart again: " : ", kept as one by untie: ") +
                     llvm::join(each.others, ", "));
  }
  out.add("merged", merged);
  if (!model.facts.scalars.empty()) {
    out.add("scalars", {llvm::join(model.facts.scalars, ", ") + ": constants, unless the job's trained names them"});
  }
  if (!model.facts.constantWeights.empty()) {
    out.add("in nodes", {std::to_string(model.facts.constantWeights.size()) +
                         " Constant nodes hold possible weights: constants, unless the job's trained names them"});
  }
  std::vector<std::string> ops;
  for (const auto &[op, count] : model.ops) {
    ops.push_back(std::to_string(count) + " " + op);
  }
  out.add("ops", {ops.empty() ? "none" : llvm::join(ops, ", ")});
  std::vector<std::string> faults = model.facts.faults;
  if (faults.empty()) {
    faults = {model.fault.empty() ? "nothing" : model.fault};
  }
  faults.front() = refusedWith(model) + faults.front();
  out.add("refused", faults);
  return out.text;
}

// Returns a job that trains the model, with the mesh and the known inputs of `given`. Fails when the model is refused, or has nothing to
// train on.
llvm::Expected<std::string> suggestJob(const Inspection &model, const job::Job &given) {
  if (!model.fault.empty()) {
    return llvm::createStringError("no job trains this model, which is refused: " + refusedWith(model) + model.fault);
  }
  if (model.loss.kind == LossGuess::Kind::None || !model.batch) {
    return llvm::createStringError(model.batch ? "no job trains this model: it has no output of floats that a loss could be of"
                                               : "no job trains this model: no input has a dim for samples");
  }
  if (model.facts.parameters.empty() && model.facts.constantWeights.empty()) {
    return llvm::createStringError("no job trains this model: " +
                                   (model.facts.scalars.empty() ? "it has no parameters"
                                                                : "it has no parameters but scalars that may be some, " +
                                                                      llvm::join(model.facts.scalars, ", ") + "; name those in trained"));
  }
  std::vector<Column> columns = listColumns(model, given);
  std::string text =
      "# A job for " + columnOf(model.name) + " to start from: the loss is a guess, see docs/reference/job.md for all fields.\n";
  text += given.has_mesh() ? "mode: " + job::Mode_Name(job::effectiveMode(given)) + "\nmesh { " +
                                 StringRef(given.mesh().ShortDebugString()).trim().str() + " }\n"
                           : "mode: DATA_PARALLEL\nmesh { axes { name: \"dp\" size: 1 } }\n";
  text += formatv("global_batch: {0}\n", *model.batch);
  for (const job::Dim &dim : model.dims) {
    const std::string which =
        dim.has_name() ? "name: " + quoted(dim.name()) : "input: " + quoted(dim.input()) + " dim: " + std::to_string(dim.dim());
    text += "dims { " + which + " size: " + std::to_string(dim.size()) + " }\n";
  }
  for (const job::KnownInput &known : given.inputs()) {
    text += "inputs { " + StringRef(known.ShortDebugString()).trim().str() + " }\n";
  }
  for (const frontend::CopiedWeight &copy : model.facts.copies) {
    text += formatv("ties {{ parameter: {0} to: {1} }\n", quoted(copy.copy), quoted(copy.original));
  }
  for (const std::string &name : model.facts.constantWeights) {
    text += formatv("trained: {0}\n", quoted(name));
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

// Returns the job that a model is inspected with. A mesh of the command line may have any axes: the job that is suggested names a mode.
llvm::Expected<job::Job> readInspectedJob(const command::Options &options) {
  llvm::Expected<command::Input> input = command::readUnchecked(options);
  if (!input) {
    return input.takeError();
  }
  if (!options.mesh.empty() && !input->job.has_mode() && (input->job.mesh().has_devices() || input->job.mesh().axes_size() > 1)) {
    input->job.set_mode(job::AUTO);
  }
  if (llvm::Error error = command::checkInput(options, input->job, *input)) {
    return std::move(error);
  }
  return std::move(input->job);
}

} // namespace

LogicalResult inspectModel(const command::Options &options) {
  llvm::Expected<job::Job> read = readInspectedJob(options);
  if (!read) {
    return command::report(read.takeError());
  }
  const job::Job &job = *read;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  command::DiagnosticPrinter printer(&context);
  const int64_t devices = job.mesh().has_devices() ? job.mesh().devices() : job::numDevices(job);
  llvm::Expected<frontend::Inspection> model = frontend::inspectOnnx(options.model, frontend::makeImportOptions(job), devices, &context);
  if (!model) {
    return command::report(model.takeError());
  }
  llvm::Expected<std::string> text = options.inspect ? inspectionText(*model) : suggestJob(*model, job);
  if (!text) {
    return command::report(llvm::createStringError(options.model + ": " + llvm::toString(text.takeError())));
  }
  llvm::outs() << *text;
  llvm::outs().flush();
  return success();
}

} // namespace ashlar::driver

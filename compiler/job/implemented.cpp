// SPDX-License-Identifier: Apache-2.0
//
// The table of implemented fields and the walk that compares a job with it. A path without an entry is refused, so a field that is new in
// job.proto is refused until somebody implements it and adds its line here.

#include "compiler/job/implemented.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

namespace ashlar::job {

namespace {

// Leaves, and messages that may be empty.
constexpr llvm::StringLiteral kImplementedFields[] = {
    "allow_tf32",
    "dataset.digits",
    "dataset.digits.eval_samples",
    "dataset.digits.train_samples",
    "dataset.drop_remainder",
    "dataset.features.column",
    "dataset.features.tensor",
    "dataset.features.transforms.normalize",
    "dataset.features.transforms.normalize.mean",
    "dataset.features.transforms.normalize.std",
    "dataset.features.transforms.rescale",
    "dataset.features.transforms.rescale.scale",
    "dataset.features.transforms.rescale.shift",
    "dataset.idx",
    "dataset.npy",
    "dataset.regression",
    "dataset.regression.a",
    "dataset.regression.b",
    "dataset.regression.c",
    "dataset.regression.eval_samples",
    "dataset.regression.noise",
    "dataset.regression.train_samples",
    "dataset.repeat",
    "dataset.shuffle",
    "deterministic",
    "deterministic.always",
    "deterministic.chunks",
    "device_configuration",
    "epochs",
    "frozen",
    "global_batch",
    "init.fill",
    "init.kaiming_uniform",
    "init.kaiming_uniform.a",
    "init.kaiming_uniform.fan_in_dim",
    "init.match",
    "init.normal.mean",
    "init.normal.std",
    "init.uniform.high",
    "init.uniform.low",
    "init.xavier_uniform",
    "log_every",
    "loss_scale",
    "loss_scale.factor",
    "loss_scale.growth_steps",
    "loss_scale.initial",
    "loss.mean_squared_error.prediction",
    "loss.mean_squared_error.target",
    "loss.model_output.tensor",
    "loss.negative_log_likelihood.labels",
    "loss.negative_log_likelihood.log_probabilities",
    "loss.softmax_cross_entropy.labels",
    "loss.softmax_cross_entropy.logits",
    "machine.device.gflop_per_s",
    "machine.device.memory_gb_per_s",
    "machine.device.narrow_gflop_per_s",
    "machine.inter_host.bandwidth_gb_per_s",
    "machine.inter_host.latency_us",
    "machine.intra_host.bandwidth_gb_per_s",
    "machine.intra_host.latency_us",
    "machine.ranks_per_host",
    "mesh.axes.name",
    "mesh.axes.size",
    "mesh.device_ids",
    "mode",
    "optimizer.learning_rate",
    "optimizer.momentum",
    "optimizer.momentum.momentum",
    "optimizer.momentum.nesterov",
    "optimizer.momentum.weight_decay",
    "optimizer.sgd",
    "optimizer.sgd.weight_decay",
    "precision",
    "rules.in.slices",
    "rules.layout",
    "rules.match",
    "rules.origin",
    "rules.out.slices",
    "rules.priority",
    "seed",
    "strategy.mesh.axes.name",
    "strategy.mesh.axes.size",
    "strategy.programs.arguments.layout",
    "strategy.programs.arguments.name",
    "strategy.programs.arguments.origins.axis",
    "strategy.programs.arguments.origins.op",
    "strategy.programs.arguments.origins.path",
    "strategy.programs.arguments.origins.source",
    "strategy.programs.arguments.type",
    "strategy.programs.name",
    "strategy.programs.ops.kind",
    "strategy.programs.ops.operands",
    "strategy.programs.ops.ordinal",
    "strategy.programs.ops.path",
    "strategy.programs.ops.results.layout",
    "strategy.programs.ops.results.origins.axis",
    "strategy.programs.ops.results.origins.op",
    "strategy.programs.ops.results.origins.path",
    "strategy.programs.ops.results.origins.source",
    "strategy.programs.ops.results.type",
    "strategy.programs.results.layout",
    "strategy.programs.results.name",
    "strategy.programs.results.origins.axis",
    "strategy.programs.results.origins.op",
    "strategy.programs.results.origins.path",
    "strategy.programs.results.origins.source",
    "strategy.programs.results.type",
    "strategy.variables.layout",
    "strategy.variables.name",
    "strategy.variables.origins.axis",
    "strategy.variables.origins.op",
    "strategy.variables.origins.path",
    "strategy.variables.origins.source",
    "strategy.variables.type",
};

// Of an enum field, the values that are implemented: "<field>=<value>".
constexpr llvm::StringLiteral kImplementedValues[] = {"mode=DATA_PARALLEL", "mode=HYBRID",   "mode=SEMI_AUTO",
                                                      "mode=STAND_ALONE",   "precision=F32", "precision=BF16_MIXED",
                                                      "precision=F16_MIXED"};

// Messages that mean nothing unless a field in them is set: checkJob asks for what they need.
constexpr llvm::StringLiteral kContainers[] = {
    "dataset",
    "dataset.features",
    "dataset.features.transforms",
    "init",
    "init.normal",
    "init.uniform",
    "loss",
    "loss.mean_squared_error",
    "loss.model_output",
    "loss.negative_log_likelihood",
    "loss.softmax_cross_entropy",
    "machine",
    "machine.device",
    "machine.inter_host",
    "machine.intra_host",
    "mesh",
    "mesh.axes",
    "optimizer",
    "rules",
    "rules.in",
    "rules.out",
    "strategy",
    "strategy.mesh",
    "strategy.mesh.axes",
    "strategy.programs",
    "strategy.programs.arguments",
    "strategy.programs.arguments.origins",
    "strategy.programs.ops",
    "strategy.programs.ops.results",
    "strategy.programs.ops.results.origins",
    "strategy.programs.results",
    "strategy.programs.results.origins",
    "strategy.variables",
    "strategy.variables.origins",
};

Unimplemented makeUnimplemented(std::string what, const FieldDescriptor *field, int index, const TextFormat::ParseInfoTree *positions) {
  Unimplemented result{std::move(what)};
  if (positions) {
    TextFormat::ParseLocation location = positions->GetLocation(field, field->is_repeated() ? index : -1);
    result.line = location.line;
    result.column = location.column;
  }
  return result;
}

// Looks through element `index` (0 of a field that is not repeated) of `field`; `path` names the field.
std::optional<Unimplemented> walkElement(const Message &message, const FieldDescriptor *field, int index, const std::string &path,
                                         const TextFormat::ParseInfoTree *positions);

std::optional<Unimplemented> walkMessage(const Message &message, const std::string &prefix, const TextFormat::ParseInfoTree *positions) {
  const Reflection *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields); // ordered by field number
  for (const FieldDescriptor *field : fields) {
    std::string path = prefix.empty() ? field->name() : prefix + "." + field->name();
    int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (auto found = walkElement(message, field, i, path, positions)) {
        return found;
      }
    }
  }
  return std::nullopt;
}

std::optional<Unimplemented> walkElement(const Message &message, const FieldDescriptor *field, int index, const std::string &path,
                                         const TextFormat::ParseInfoTree *positions) {
  const Reflection *reflection = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const Message &nested =
        field->is_repeated() ? reflection->GetRepeatedMessage(message, field, index) : reflection->GetMessage(message, field);
    const TextFormat::ParseInfoTree *below = positions ? positions->GetTreeForNested(field, field->is_repeated() ? index : -1) : nullptr;
    if (auto found = walkMessage(nested, path, below)) {
      return found;
    }
    if (llvm::is_contained(kContainers, path)) {
      return std::nullopt;
    }
    // A message with fields set has had them judged one by one.
    std::vector<const FieldDescriptor *> set;
    nested.GetReflection()->ListFields(nested, &set);
    if (!set.empty()) {
      return std::nullopt;
    }
  }
  if (!llvm::is_contained(kImplementedFields, path)) {
    return makeUnimplemented("field " + path, field, index, positions);
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    std::string value = reflection->GetEnum(message, field)->name();
    if (!llvm::is_contained(kImplementedValues, path + "=" + value)) {
      return makeUnimplemented("value " + value + " of field " + path, field, index, positions);
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<Unimplemented> findUnimplemented(const Job &job, const TextFormat::ParseInfoTree *positions) {
  return walkMessage(job, "", positions);
}

} // namespace ashlar::job

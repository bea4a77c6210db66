// SPDX-License-Identifier: Apache-2.0
//
// The ranges, sorted by path, and the walk over all fields that are set.

#include "compiler/job/ranges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace ashlar::job {

namespace {

constexpr double kMostF32 = std::numeric_limits<float>::max();
constexpr double kMostI32 = std::numeric_limits<int32_t>::max(), kMostI64 = 0x1p63;
// Samples, steps and passes: products of two of them, and of one with a number of devices, fit into 64 bits.
constexpr double kMostCount = 0x1p31;
constexpr double kMostDevices = 65536;        // as many as a mesh has
constexpr double kMostMicroBatches = 1 << 20; // of a pipeline
constexpr double kMostPixels = 65536;         // a side of an image
constexpr double kMostTokens = 1 << 24;       // of a sample
constexpr double kMostClasses = 1 << 20;      // that labels are spread over
constexpr double kMostDims = 63;              // dim of a tensor
constexpr double kMostCollectives = 0x1p20;   // more than any program has

constexpr NumberRange atLeast(llvm::StringLiteral path, double least, double most) {
  return {path, least, most};
}
constexpr NumberRange anyF32(llvm::StringLiteral path) {
  return {path, -kMostF32, kMostF32, false, false, true};
}
constexpr NumberRange aboveZeroF32(llvm::StringLiteral path) {
  return {path, 0, kMostF32, true, false, true};
}
constexpr NumberRange fromZeroF32(llvm::StringLiteral path) {
  return {path, 0, kMostF32, false, false, true};
}
constexpr NumberRange shareF32(llvm::StringLiteral path) {
  return {path, 0, 1, false, true, true};
}

constexpr NumberRange kRanges[] = {
    atLeast("accumulate", 1, kMostCount),
    atLeast("checkpoint.every_steps", 1, 0x1p40),
    atLeast("checkpoint.keep", 1, kMostI32),
    atLeast("comm_fusion.all_gather.index", 1, kMostCollectives),
    atLeast("comm_fusion.all_gather.size_mb", 1, kMostI32),
    atLeast("comm_fusion.all_reduce.index", 1, kMostCollectives),
    atLeast("comm_fusion.all_reduce.size_mb", 1, kMostI32),
    atLeast("comm_fusion.reduce_scatter.index", 1, kMostCollectives),
    atLeast("comm_fusion.reduce_scatter.size_mb", 1, kMostI32),
    atLeast("dataset.digits.eval_samples", 1, kMostCount),
    atLeast("dataset.digits.train_samples", 1, kMostCount),
    anyF32("dataset.features.transforms.normalize.mean"),
    aboveZeroF32("dataset.features.transforms.normalize.std"),
    atLeast("dataset.features.transforms.one_hot.classes", 1, kMostClasses),
    atLeast("dataset.features.transforms.random_crop.height", 1, kMostPixels),
    atLeast("dataset.features.transforms.random_crop.padding", 0, kMostPixels),
    atLeast("dataset.features.transforms.random_crop.width", 1, kMostPixels),
    {"dataset.features.transforms.random_horizontal_flip.probability", 0, 1, false, false, true},
    anyF32("dataset.features.transforms.rescale.scale"),
    anyF32("dataset.features.transforms.rescale.shift"),
    atLeast("dataset.features.transforms.resize.height", 1, kMostPixels),
    atLeast("dataset.features.transforms.resize.width", 1, kMostPixels),
    atLeast("dataset.images.height", 1, kMostPixels),
    {"dataset.images.least_area", 0, 1, true, false, true},
    atLeast("dataset.images.short_side", 1, kMostPixels),
    atLeast("dataset.images.width", 1, kMostPixels),
    anyF32("dataset.regression.a"),
    anyF32("dataset.regression.b"),
    anyF32("dataset.regression.c"),
    atLeast("dataset.regression.eval_samples", 1, kMostCount),
    fromZeroF32("dataset.regression.noise"),
    atLeast("dataset.regression.train_samples", 1, kMostCount),
    atLeast("dataset.repeat", 1, 0x1p40),
    atLeast("dataset.text.eval_samples", 1, kMostCount),
    atLeast("dataset.text.sequence_length", 1, kMostTokens),
    atLeast("dataset.text.train_samples", 1, kMostCount),
    atLeast("dataset.tokens.documents.boundary", 0, 0x1p32 - 1),
    shareF32("dataset.tokens.eval_share"),
    atLeast("dataset.tokens.sequence_length", 1, kMostTokens),
    atLeast("deterministic.chunks", 1, kMostDevices),
    atLeast("dims.dim", 0, kMostDims),
    atLeast("dims.size", 1, kMostCount),
    atLeast("epochs", 1, 0x1p40),
    atLeast("generate.chunk", 1, kMostCount),
    atLeast("global_batch", 1, kMostCount),
    anyF32("init.fill"),
    anyF32("init.kaiming_uniform.a"),
    atLeast("init.kaiming_uniform.fan_in_dim", 0, kMostI32),
    anyF32("init.normal.mean"),
    aboveZeroF32("init.normal.std"),
    anyF32("init.uniform.high"),
    anyF32("init.uniform.low"),
    anyF32("inputs.value"),
    atLeast("log_every", 1, 0x1p40),
    atLeast("loss.negative_log_likelihood.ignore_index", -0x1p31, kMostI32), // labels are i32
    atLeast("loss.softmax_cross_entropy.ignore_index", -0x1p31, kMostI32),
    // The factor of a step that grows; beyond these initial values the scale would only move into its own limits
    // (passes/train/update/loss_scale.cpp).
    {"loss_scale.factor", 1, kMostF32, true, false, true},
    atLeast("loss_scale.growth_steps", 1, 0x1p40),
    {"loss_scale.initial", 0x1p-24, 0x1p96, false, false, true},
    // Costs are 64-bit numbers of nanoseconds and bytes: more than these would mean another unit was meant.
    atLeast("machine.adapters_per_host", 1, kMostI32),
    atLeast("machine.device.attentions.from", 1, kMostI32),
    atLeast("machine.device.attentions.gflop_per_s", 1e-3, 1e9),
    atLeast("machine.device.attentions.narrow_gflop_per_s", 1e-3, 1e9),
    atLeast("machine.device.convolutions.from", 1, kMostI32),
    atLeast("machine.device.convolutions.gflop_per_s", 1e-3, 1e9),
    atLeast("machine.device.convolutions.narrow_gflop_per_s", 1e-3, 1e9),
    atLeast("machine.device.gflop_per_s", 1e-3, 1e9),
    atLeast("machine.device.launch_us", 0, 1e6),
    atLeast("machine.device.memory_gb_per_s", 1e-3, 1e6),
    atLeast("machine.device.narrow_gflop_per_s", 1e-3, 1e9),
    atLeast("machine.device.products.from", 1, kMostI32),
    atLeast("machine.device.products.gflop_per_s", 1e-3, 1e9),
    atLeast("machine.device.products.narrow_gflop_per_s", 1e-3, 1e9),
    atLeast("machine.hosts_per_pod", 1, kMostI32),
    atLeast("machine.inter_host.bandwidth_gb_per_s", 1e-3, 1e6),
    atLeast("machine.inter_host.collectives.bandwidth_gb_per_s", 1e-3, 1e6),
    atLeast("machine.inter_host.collectives.latency_us", 0, 1e6),
    atLeast("machine.inter_host.latency_us", 0, 1e6),
    atLeast("machine.inter_pod.bandwidth_gb_per_s", 1e-3, 1e6),
    atLeast("machine.inter_pod.collectives.bandwidth_gb_per_s", 1e-3, 1e6),
    atLeast("machine.inter_pod.collectives.latency_us", 0, 1e6),
    atLeast("machine.inter_pod.latency_us", 0, 1e6),
    atLeast("machine.intra_host.bandwidth_gb_per_s", 1e-3, 1e6),
    atLeast("machine.intra_host.collectives.bandwidth_gb_per_s", 1e-3, 1e6),
    atLeast("machine.intra_host.collectives.latency_us", 0, 1e6),
    atLeast("machine.intra_host.latency_us", 0, 1e6),
    atLeast("machine.ranks_per_host", 1, kMostI32),
    atLeast("machine.uplinks_per_pod", 1, kMostI32),
    atLeast("mesh.axes.size", 1, kMostI32),
    atLeast("mesh.device_ids", 0, kMostI32),
    atLeast("mesh.devices", 1, kMostDevices),
    shareF32("optimizer.adam.beta1"),
    shareF32("optimizer.adam.beta2"),
    aboveZeroF32("optimizer.adam.epsilon"),
    fromZeroF32("optimizer.adam.weight_decay"),
    shareF32("optimizer.adamw.beta1"),
    shareF32("optimizer.adamw.beta2"),
    aboveZeroF32("optimizer.adamw.epsilon"),
    fromZeroF32("optimizer.adamw.weight_decay"),
    aboveZeroF32("optimizer.clip_global_norm"),
    shareF32("optimizer.lamb.beta1"),
    shareF32("optimizer.lamb.beta2"),
    aboveZeroF32("optimizer.lamb.epsilon"),
    fromZeroF32("optimizer.lamb.weight_decay"),
    aboveZeroF32("optimizer.learning_rate"),
    shareF32("optimizer.momentum.momentum"),
    fromZeroF32("optimizer.momentum.weight_decay"),
    atLeast("optimizer.schedule.cosine.decay_steps", 1, 0x1p40),
    fromZeroF32("optimizer.schedule.cosine.end_learning_rate"),
    atLeast("optimizer.schedule.piecewise.boundaries", 1, 0x1p40),
    fromZeroF32("optimizer.schedule.piecewise.values"),
    atLeast("optimizer.schedule.polynomial.decay_steps", 1, 0x1p40),
    fromZeroF32("optimizer.schedule.polynomial.end_learning_rate"),
    aboveZeroF32("optimizer.schedule.polynomial.power"),
    aboveZeroF32("optimizer.schedule.step.gamma"),
    atLeast("optimizer.schedule.step.size", 1, 0x1p40),
    atLeast("optimizer.schedule.warmup_steps", 1, 0x1p40),
    fromZeroF32("optimizer.sgd.weight_decay"),
    atLeast("optimizer_parallel.level", 1, 3),
    atLeast("optimizer_parallel.shard_size", -1, kMostDevices),
    atLeast("optimizer_parallel.threshold_kb", 0, kMostI32),
    atLeast("pipeline.chunks", 1, kMostDevices),
    atLeast("pipeline.micro_batches", 1, kMostMicroBatches),
    atLeast("pipeline.stages", 1, kMostDevices),
    atLeast("rules.comm_fusion", 0, kMostCollectives),
    atLeast("rules.in.slices", 1, kMostDevices),
    atLeast("rules.out.slices", 1, kMostDevices),
    atLeast("rules.pipeline_stage", 0, kMostDevices),
    atLeast("rules.priority", 0, kMostI32),
    fromZeroF32("rules.weight_decay"),
    atLeast("seed", 0, kMostI64),
    atLeast("strategy.mesh.axes.size", 1, kMostI32),
    atLeast("strategy.programs.ops.ordinal", 0, kMostI32),
};

bool isWithin(const NumberRange &range, double value) {
  bool low = range.excludesLeast ? value > range.least : value >= range.least;
  bool high = range.excludesMost ? value < range.most : value <= range.most;
  return low && high; // neither of a NaN
}

// "optimizer.learning_rate 0 is not in (0, 3.4028234663852886e+38]"; `of` names what holds the field, " of "fc*"", or nothing.
Fault describe(const NumberRange &range, const std::string &value, const std::string &of) {
  std::string text;
  llvm::raw_string_ostream(text) << range.path << " " << value << of << " is not in " << (range.excludesLeast ? "(" : "[")
                                 << llvm::format("%.15g", range.least) << ", " << llvm::format("%.15g", range.most)
                                 << (range.excludesMost ? ")" : "]");
  return text;
}

std::string numberText(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.15g", value);
  return text;
}

Fault checkFloat(const NumberRange &range, double value, const std::string &of) {
  if (!isWithin(range, value)) {
    return describe(range, numberText(value), of);
  }
  auto rounded = static_cast<float>(value);
  if (range.inF32 && (!isWithin(range, rounded) || (rounded == 0) != (value == 0))) {
    return describe(range, numberText(value) + of + ", in f32 " + numberText(rounded) + ",", "");
  }
  return {};
}

// Returns how errors name the element of a list that holds a number: by its name, match or column.
std::string nameOf(const Message &message, const std::string &outer) {
  for (const char *key : {"name", "match", "column"}) {
    const FieldDescriptor *field = message.GetDescriptor()->FindFieldByName(key);
    if (field && field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && message.GetReflection()->HasField(message, field)) {
      return " of \"" + message.GetReflection()->GetString(message, field) + "\"";
    }
  }
  return outer;
}

Fault checkMessage(const Message &message, const std::string &prefix, const std::string &outer);

// Checks element `index` (0 of a field that is not repeated) of a field.
Fault checkElement(const Message &message, const FieldDescriptor *field, int index, const std::string &path, const std::string &of) {
  const Reflection *reflection = message.GetReflection();
  bool isRepeated = field->is_repeated();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return checkMessage(isRepeated ? reflection->GetRepeatedMessage(message, field, index) : reflection->GetMessage(message, field), path,
                        of);
  }
  const NumberRange *range = findRange(path);
  if (!range) {
    return {};
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    double value = isRepeated ? reflection->GetRepeatedDouble(message, field, index) : reflection->GetDouble(message, field);
    return checkFloat(*range, value, of);
  }
  bool isWide = field->cpp_type() == FieldDescriptor::CPPTYPE_INT64;
  int64_t value = isWide && isRepeated ? reflection->GetRepeatedInt64(message, field, index)
                  : isWide             ? reflection->GetInt64(message, field)
                  : isRepeated         ? reflection->GetRepeatedInt32(message, field, index)
                                       : reflection->GetInt32(message, field);
  return isWithin(*range, static_cast<double>(value)) ? "" : describe(*range, std::to_string(value), of);
}

Fault checkMessage(const Message &message, const std::string &prefix, const std::string &outer) {
  const Reflection *reflection = message.GetReflection();
  std::string of = nameOf(message, outer);
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    std::string path = prefix.empty() ? field->name() : prefix + "." + field->name();
    for (int i = 0, count = field->is_repeated() ? reflection->FieldSize(message, field) : 1; i < count; ++i) {
      if (Fault fault = checkElement(message, field, i, path, of); !fault.empty()) {
        return fault;
      }
    }
  }
  return {};
}

} // namespace

const NumberRange *findRange(llvm::StringRef path) {
  const NumberRange *found = llvm::find_if(kRanges, [&](const NumberRange &range) { return range.path == path; });
  return found == std::end(kRanges) ? nullptr : found;
}

Fault checkRanges(const Job &job) {
  return checkMessage(job, "", "");
}

} // namespace ashlar::job

// SPDX-License-Identifier: Apache-2.0
//
// Walks over job.proto itself: no field is ever ignored, and every number has a range.

#include "compiler/job/implemented.h"
#include "compiler/job/job.h"
#include "compiler/job/ranges.h"
#include "test/unit/job/good_job.h"

#include <google/protobuf/text_format.h>

#include <iostream>
#include <limits>
#include <set>

namespace ashlar::test::fields_test {

using namespace ashlar::job;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

// Sets `field` of `message` (and something in a message field, so that it is not empty only by chance).
void setField(Message &message, const FieldDescriptor *field) {
  const auto *reflection = message.GetReflection();
  switch (field->cpp_type()) {
  case FieldDescriptor::CPPTYPE_INT32:
    field->is_repeated() ? reflection->AddInt32(&message, field, 1) : reflection->SetInt32(&message, field, 1);
    break;
  case FieldDescriptor::CPPTYPE_INT64:
    field->is_repeated() ? reflection->AddInt64(&message, field, 1) : reflection->SetInt64(&message, field, 1);
    break;
  case FieldDescriptor::CPPTYPE_DOUBLE:
    field->is_repeated() ? reflection->AddDouble(&message, field, 1) : reflection->SetDouble(&message, field, 1);
    break;
  case FieldDescriptor::CPPTYPE_BOOL:
    reflection->SetBool(&message, field, true);
    break;
  case FieldDescriptor::CPPTYPE_STRING:
    field->is_repeated() ? reflection->AddString(&message, field, "x") : reflection->SetString(&message, field, "x");
    break;
  case FieldDescriptor::CPPTYPE_ENUM:
    reflection->SetEnumValue(&message, field, field->enum_type()->value(0)->number());
    break;
  default:
    FAIL("a field type the test does not know: " << field->full_name());
  }
}

Message *nest(Message &message, const FieldDescriptor *field) {
  const auto *reflection = message.GetReflection();
  return field->is_repeated() ? reflection->AddMessage(&message, field) : reflection->MutableMessage(&message, field);
}

// Sets one value after the other of an enum field of `message`, which `job` holds, and collects "field=VALUE".
void visitValues(const Job &job, Message &message, const FieldDescriptor *field, const std::string &name, std::set<std::string> &refused,
                 std::set<std::string> &accepted) {
  for (int i = 0; i < field->enum_type()->value_count(); ++i) {
    message.GetReflection()->SetEnumValue(&message, field, field->enum_type()->value(i)->number());
    (findUnimplemented(job) ? refused : accepted).insert(name + "=" + field->enum_type()->value(i)->name());
  }
}

// Sets one leaf of `type` after the other in `job` (which `at` points into) and collects the paths that are refused.
void visitLeaves(const Job &job, const std::vector<const FieldDescriptor *> &path, const google::protobuf::Descriptor *type,
                 std::set<std::string> &refused, std::set<std::string> &accepted) {
  for (int i = 0; i < type->field_count(); ++i) {
    std::vector<const FieldDescriptor *> longer = path;
    longer.push_back(type->field(i));
    Job changed = job;
    Message *at = &changed;
    std::string name;
    for (const FieldDescriptor *field : longer) {
      name += (name.empty() ? "" : ".") + field->name();
      field->message_type() ? at = nest(*at, field) : (setField(*at, field), at);
    }
    const auto *nested = type->field(i)->message_type();
    if (nested && nested->field_count() > 0) {
      visitLeaves(job, longer, nested, refused, accepted);
      continue;
    }
    auto found = findUnimplemented(changed);
    if (found) {
      CHECK_THAT(found->what, contains(name));
    }
    (found ? refused : accepted).insert(name);
    if (!found && type->field(i)->enum_type()) {
      visitValues(changed, *at, type->field(i), name, refused, accepted);
    }
  }
}

} // namespace

// Walks job.proto itself: a field is refused with its own name or is in this list; a new field is in neither until somebody decides.
TEST_CASE("every field of job.proto is implemented or refused", "[job]") {
  std::set<std::string> refused, accepted;
  visitLeaves(Job(), {}, Job::descriptor(), refused, accepted);
  for (const char *name : {"parameter_broadcast", "gradients_mean", "loss_scope", "loss.softmax_cross_entropy.dense_labels",
                           "strategy.programs.ops.results.name"}) {
    INFO(name);
    CHECK(refused.count(name) == 1);
  }
  CHECK(accepted == std::set<std::string>{
                        "accumulate",
                        "allow_tf32",
                        "batch_norm",
                        "batch_norm=GLOBAL",
                        "batch_norm=PER_REPLICA",
                        "batch_norm_variance",
                        "batch_norm_variance=ONNX",
                        "batch_norm_variance=TORCH",
                        "checkpoint.every_steps",
                        "checkpoint.keep",
                        "checkpoint.last_on_signal",
                        "checkpoint.prefix",
                        "comm_fusion.all_gather.index",
                        "comm_fusion.all_gather.mode",
                        "comm_fusion.all_gather.mode=AUTO_BUCKETS",
                        "comm_fusion.all_gather.mode=INDEX",
                        "comm_fusion.all_gather.mode=SIZE",
                        "comm_fusion.all_gather.size_mb",
                        "comm_fusion.all_reduce.index",
                        "comm_fusion.all_reduce.mode",
                        "comm_fusion.all_reduce.mode=AUTO_BUCKETS",
                        "comm_fusion.all_reduce.mode=INDEX",
                        "comm_fusion.all_reduce.mode=SIZE",
                        "comm_fusion.all_reduce.size_mb",
                        "comm_fusion.reduce_scatter.index",
                        "comm_fusion.reduce_scatter.mode",
                        "comm_fusion.reduce_scatter.mode=AUTO_BUCKETS",
                        "comm_fusion.reduce_scatter.mode=INDEX",
                        "comm_fusion.reduce_scatter.mode=SIZE",
                        "comm_fusion.reduce_scatter.size_mb",
                        "loss_scale.factor",
                        "loss_scale.growth_steps",
                        "loss_scale.initial",
                        "dataset.cifar10",
                        "dataset.csv.categories",
                        "dataset.digits.eval_samples",
                        "dataset.digits.train_samples",
                        "dataset.drop_remainder",
                        "dataset.features.column",
                        "dataset.features.layout",
                        "dataset.features.layout=NCHW",
                        "dataset.features.layout=NHWC",
                        "dataset.features.tensor",
                        "dataset.features.transforms.hwc2chw",
                        "dataset.features.transforms.normalize.mean",
                        "dataset.features.transforms.normalize.std",
                        "dataset.features.transforms.one_hot.classes",
                        "dataset.features.transforms.random_crop.height",
                        "dataset.features.transforms.random_crop.padding",
                        "dataset.features.transforms.random_crop.width",
                        "dataset.features.transforms.random_horizontal_flip.probability",
                        "dataset.features.transforms.rescale.scale",
                        "dataset.features.transforms.rescale.shift",
                        "dataset.features.transforms.resize.height",
                        "dataset.features.transforms.resize.width",
                        "dataset.features.transforms.type_cast.type",
                        "dataset.features.transforms.type_cast.type=BOOL",
                        "dataset.features.transforms.type_cast.type=F16",
                        "dataset.features.transforms.type_cast.type=F32",
                        "dataset.features.transforms.type_cast.type=F64",
                        "dataset.features.transforms.type_cast.type=I32",
                        "dataset.features.transforms.type_cast.type=I64",
                        "dataset.idx",
                        "dataset.images.height",
                        "dataset.images.least_area",
                        "dataset.images.short_side",
                        "dataset.images.train_crop",
                        "dataset.images.train_crop=MIDDLE",
                        "dataset.images.train_crop=RANDOM_RESIZED",
                        "dataset.images.width",
                        "dataset.npy",
                        "dataset.npz.file",
                        "dataset.regression.a",
                        "dataset.regression.b",
                        "dataset.regression.c",
                        "dataset.regression.eval_samples",
                        "dataset.regression.noise",
                        "dataset.regression.train_samples",
                        "dataset.repeat",
                        "dataset.shuffle",
                        "dataset.text.eval_samples",
                        "dataset.text.sequence_length",
                        "dataset.text.train_samples",
                        "dataset.tokens.documents.boundary",
                        "dataset.tokens.documents.place",
                        "dataset.tokens.documents.place=BEGIN",
                        "dataset.tokens.documents.place=END",
                        "dataset.tokens.documents.predict_next",
                        "dataset.tokens.documents.restart_positions",
                        "dataset.tokens.eval",
                        "dataset.tokens.eval_share",
                        "dataset.tokens.sequence_length",
                        "dataset.tokens.train",
                        "dataset.tokens.type",
                        "dataset.tokens.type=U16",
                        "dataset.tokens.type=U32",
                        "dataset.tokens.type=U8",
                        "deterministic.always",
                        "deterministic.chunks",
                        "device_configuration",
                        "dims.dim",
                        "dims.input",
                        "dims.name",
                        "dims.size",
                        "epochs",
                        "frozen",
                        "generate.chunk",
                        "generate.logits",
                        "global_batch",
                        "gradient_reduce_precision",
                        "gradient_reduce_precision=BF16",
                        "gradient_reduce_precision=F32",
                        "gradient_sync",
                        "gradient_sync=AUTO",
                        "gradient_sync=MICRO_BATCH",
                        "gradient_sync=STEP",
                        "init.fill",
                        "init.kaiming_uniform.a",
                        "init.kaiming_uniform.fan_in_dim",
                        "init.match",
                        "init.normal.mean",
                        "init.normal.std",
                        "init.uniform.high",
                        "init.uniform.low",
                        "init.xavier_uniform",
                        "inputs.name",
                        "inputs.value",
                        "log_every",
                        "loss.mean_squared_error.micro_batches",
                        "loss.mean_squared_error.micro_batches=EXACT",
                        "loss.mean_squared_error.micro_batches=MEAN",
                        "loss.mean_squared_error.prediction",
                        "loss.mean_squared_error.target",
                        "loss.model_output.micro_batches",
                        "loss.model_output.micro_batches=EXACT",
                        "loss.model_output.micro_batches=MEAN",
                        "loss.model_output.tensor",
                        "loss.negative_log_likelihood.ignore_index",
                        "loss.negative_log_likelihood.labels",
                        "loss.negative_log_likelihood.log_probabilities",
                        "loss.negative_log_likelihood.micro_batches",
                        "loss.negative_log_likelihood.micro_batches=EXACT",
                        "loss.negative_log_likelihood.micro_batches=MEAN",
                        "loss.softmax_cross_entropy.ignore_index",
                        "loss.softmax_cross_entropy.labels",
                        "loss.softmax_cross_entropy.logits",
                        "loss.softmax_cross_entropy.micro_batches",
                        "loss.softmax_cross_entropy.micro_batches=EXACT",
                        "loss.softmax_cross_entropy.micro_batches=MEAN",
                        "machine.adapters_per_host",
                        "machine.device.attentions.from",
                        "machine.device.attentions.gflop_per_s",
                        "machine.device.attentions.narrow_gflop_per_s",
                        "machine.device.convolutions.from",
                        "machine.device.convolutions.gflop_per_s",
                        "machine.device.convolutions.narrow_gflop_per_s",
                        "machine.device.gflop_per_s",
                        "machine.device.launch_us",
                        "machine.device.memory_gb_per_s",
                        "machine.device.narrow_gflop_per_s",
                        "machine.device.products.from",
                        "machine.device.products.gflop_per_s",
                        "machine.device.products.narrow_gflop_per_s",
                        "machine.hosts_per_pod",
                        "machine.inter_host.bandwidth_gb_per_s",
                        "machine.inter_host.collectives.bandwidth_gb_per_s",
                        "machine.inter_host.collectives.kind",
                        "machine.inter_host.collectives.kind=ALL_GATHER",
                        "machine.inter_host.collectives.kind=ALL_REDUCE",
                        "machine.inter_host.collectives.kind=ALL_TO_ALL",
                        "machine.inter_host.collectives.kind=BROADCAST",
                        "machine.inter_host.collectives.kind=HALO",
                        "machine.inter_host.collectives.kind=PERMUTE",
                        "machine.inter_host.collectives.kind=REDUCE_SCATTER",
                        "machine.inter_host.collectives.latency_us",
                        "machine.inter_host.latency_us",
                        "machine.inter_host.moves_beside",
                        "machine.inter_pod.bandwidth_gb_per_s",
                        "machine.inter_pod.collectives.bandwidth_gb_per_s",
                        "machine.inter_pod.collectives.kind",
                        "machine.inter_pod.collectives.kind=ALL_GATHER",
                        "machine.inter_pod.collectives.kind=ALL_REDUCE",
                        "machine.inter_pod.collectives.kind=ALL_TO_ALL",
                        "machine.inter_pod.collectives.kind=BROADCAST",
                        "machine.inter_pod.collectives.kind=HALO",
                        "machine.inter_pod.collectives.kind=PERMUTE",
                        "machine.inter_pod.collectives.kind=REDUCE_SCATTER",
                        "machine.inter_pod.collectives.latency_us",
                        "machine.inter_pod.latency_us",
                        "machine.inter_pod.moves_beside",
                        "machine.intra_host.bandwidth_gb_per_s",
                        "machine.intra_host.collectives.bandwidth_gb_per_s",
                        "machine.intra_host.collectives.kind",
                        "machine.intra_host.collectives.kind=ALL_GATHER",
                        "machine.intra_host.collectives.kind=ALL_REDUCE",
                        "machine.intra_host.collectives.kind=ALL_TO_ALL",
                        "machine.intra_host.collectives.kind=BROADCAST",
                        "machine.intra_host.collectives.kind=HALO",
                        "machine.intra_host.collectives.kind=PERMUTE",
                        "machine.intra_host.collectives.kind=REDUCE_SCATTER",
                        "machine.intra_host.collectives.latency_us",
                        "machine.intra_host.latency_us",
                        "machine.intra_host.moves_beside",
                        "machine.preset",
                        "machine.preset=A100",
                        "machine.preset=H100",
                        "machine.preset=H200",
                        "machine.rails",
                        "machine.ranks_per_host",
                        "machine.uplinks_per_pod",
                        "mesh.axes.name",
                        "mesh.axes.size",
                        "mesh.device_ids",
                        "mesh.devices",
                        "mode",
                        "mode=AUTO",
                        "mode=DATA_PARALLEL",
                        "mode=HYBRID",
                        "mode=SEMI_AUTO",
                        "mode=STAND_ALONE",
                        "on_nonfinite",
                        "on_nonfinite=CONTINUE",
                        "on_nonfinite=SKIP",
                        "on_nonfinite=STOP",
                        "optimizer.adam.beta1",
                        "optimizer.adam.beta2",
                        "optimizer.adam.epsilon",
                        "optimizer.adam.weight_decay",
                        "optimizer.adamw.beta1",
                        "optimizer.adamw.beta2",
                        "optimizer.adamw.epsilon",
                        "optimizer.adamw.weight_decay",
                        "optimizer.clip_global_norm",
                        "optimizer.lamb.beta1",
                        "optimizer.lamb.beta2",
                        "optimizer.lamb.epsilon",
                        "optimizer.lamb.weight_decay",
                        "optimizer.learning_rate",
                        "optimizer.momentum.momentum",
                        "optimizer.momentum.nesterov",
                        "optimizer.momentum.weight_decay",
                        "optimizer.schedule.constant",
                        "optimizer.schedule.cosine.decay_steps",
                        "optimizer.schedule.cosine.end_learning_rate",
                        "optimizer.schedule.piecewise.boundaries",
                        "optimizer.schedule.piecewise.values",
                        "optimizer.schedule.polynomial.decay_steps",
                        "optimizer.schedule.polynomial.end_learning_rate",
                        "optimizer.schedule.polynomial.power",
                        "optimizer.schedule.step.gamma",
                        "optimizer.schedule.step.size",
                        "optimizer.schedule.warmup_steps",
                        "optimizer.sgd.weight_decay",
                        "optimizer_parallel.level",
                        "optimizer_parallel.shard_size",
                        "optimizer_parallel.threshold_kb",
                        "pipeline.chunks",
                        "pipeline.micro_batches",
                        "pipeline.order",
                        "pipeline.schedule",
                        "pipeline.schedule=GPIPE",
                        "pipeline.schedule=INTERLEAVED",
                        "pipeline.schedule=ONE_F_ONE_B",
                        "pipeline.schedule=ZERO_BUBBLE",
                        "pipeline.stages",
                        "precision",
                        "precision=BF16_MIXED",
                        "precision=F16_MIXED",
                        "precision=F32",
                        "recompute",
                        "recompute=AUTO",
                        "recompute=BY_RULES",
                        "rules.comm_fusion",
                        "rules.in.slices",
                        "rules.layout",
                        "rules.match",
                        "rules.optimizer_parallel",
                        "rules.origin", // parseJobText sets it, and refuses a text that does
                        "rules.out.slices",
                        "rules.pipeline_stage",
                        "rules.priority",
                        "rules.recompute",
                        "rules.recompute_comm",
                        "rules.recompute_param_gather",
                        "rules.weight_decay",
                        "search",
                        "search=DYNAMIC_PROGRAMMING",
                        "search=ILP",
                        "search=PROPAGATION",
                        "seed",
                        "sequence_parallel",
                        "sequence_parallel=AUTO",
                        "sequence_parallel=OFF",
                        "straight_through",
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
                        "ties.parameter",
                        "ties.to",
                        "trained",
                        "untie",
                    });
}

// For test/job_options, which has a case of its own for each of them.
TEST_CASE("the accepted fields are listed", "[.accepted]") {
  std::set<std::string> refused, accepted;
  visitLeaves(Job(), {}, Job::descriptor(), refused, accepted);
  for (const std::string &name : accepted) {
    std::cout << "accepted: " << name << "\n";
  }
  CHECK(!accepted.empty());
}

namespace {

// One number of job.proto that this version implements.
struct Number {
  std::string path;
  std::vector<const FieldDescriptor *> fields; // from Job down to it
};

void collectNumbers(const google::protobuf::Descriptor *type, const Number &outer, std::vector<Number> &numbers) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor *field = type->field(i);
    Number number = outer;
    number.path += (outer.path.empty() ? "" : ".") + field->name();
    number.fields.push_back(field);
    if (field->message_type()) {
      collectNumbers(field->message_type(), number, numbers);
      continue;
    }
    bool isNumber = field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE || field->cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
                    field->cpp_type() == FieldDescriptor::CPPTYPE_INT64;
    Job job;
    Message *at = &job;
    for (const FieldDescriptor *step : number.fields) {
      step->message_type() ? at = nest(*at, step) : (setField(*at, step), at);
    }
    if (isNumber && !findUnimplemented(job)) {
      numbers.push_back(std::move(number));
    }
  }
}

// Returns what checkRanges says of a job with nothing but this number.
std::string rangeFault(const Number &number, double value) {
  Job job;
  Message *at = &job;
  for (const FieldDescriptor *step : number.fields) {
    if (step->message_type()) {
      at = nest(*at, step);
      continue;
    }
    const auto *reflection = at->GetReflection();
    if (step->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      step->is_repeated() ? reflection->AddDouble(at, step, value) : reflection->SetDouble(at, step, value);
    } else if (step->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      int64_t wide = value >= 0x1p63 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(value);
      step->is_repeated() ? reflection->AddInt64(at, step, wide) : reflection->SetInt64(at, step, wide);
    } else {
      auto narrow = static_cast<int32_t>(value >= 0x1p31 ? std::numeric_limits<int32_t>::max() : value);
      step->is_repeated() ? reflection->AddInt32(at, step, narrow) : reflection->SetInt32(at, step, narrow);
    }
  }
  return checkRanges(job);
}

} // namespace

// Walks job.proto: each number has a range, and values that nobody can mean are outside of it. What is allowed is listed here.
TEST_CASE("every number of a job has a range", "[job]") {
  const std::set<std::string> anySign = {"loss.negative_log_likelihood.ignore_index",
                                         "loss.softmax_cross_entropy.ignore_index",
                                         "dataset.features.transforms.normalize.mean",
                                         "dataset.features.transforms.rescale.scale",
                                         "dataset.features.transforms.rescale.shift",
                                         "dataset.regression.a",
                                         "dataset.regression.b",
                                         "dataset.regression.c",
                                         "init.fill",
                                         "init.kaiming_uniform.a",
                                         "init.normal.mean",
                                         "init.uniform.high",
                                         "init.uniform.low",
                                         "inputs.value",
                                         "optimizer_parallel.shard_size"};
  const std::set<std::string> zero = {"dataset.features.transforms.random_crop.padding",
                                      "dataset.tokens.documents.boundary",
                                      "dataset.tokens.eval_share",
                                      "dataset.features.transforms.random_horizontal_flip.probability",
                                      "dataset.regression.noise",
                                      "dims.dim",
                                      "init.kaiming_uniform.fan_in_dim",
                                      "machine.device.launch_us",
                                      "machine.inter_host.collectives.latency_us",
                                      "machine.inter_host.latency_us",
                                      "machine.inter_pod.collectives.latency_us",
                                      "machine.inter_pod.latency_us",
                                      "machine.intra_host.collectives.latency_us",
                                      "machine.intra_host.latency_us",
                                      "mesh.device_ids",
                                      "optimizer.adam.beta1",
                                      "optimizer.adam.beta2",
                                      "optimizer.adam.weight_decay",
                                      "optimizer.adamw.beta1",
                                      "optimizer.adamw.beta2",
                                      "optimizer.adamw.weight_decay",
                                      "optimizer.lamb.beta1",
                                      "optimizer.lamb.beta2",
                                      "optimizer.lamb.weight_decay",
                                      "optimizer.schedule.cosine.end_learning_rate",
                                      "optimizer.schedule.piecewise.values",
                                      "optimizer.schedule.polynomial.end_learning_rate",
                                      "optimizer.momentum.momentum",
                                      "optimizer.momentum.weight_decay",
                                      "optimizer.sgd.weight_decay",
                                      "optimizer_parallel.threshold_kb",
                                      "rules.comm_fusion",
                                      "rules.pipeline_stage",
                                      "rules.priority",
                                      "rules.weight_decay",
                                      "seed",
                                      "strategy.programs.ops.ordinal"};
  const std::set<std::string> notOfPrograms = {"machine.device.launch_us",      "machine.inter_host.collectives.latency_us",
                                               "machine.inter_host.latency_us", "machine.inter_pod.collectives.latency_us",
                                               "machine.inter_pod.latency_us",  "machine.intra_host.collectives.latency_us",
                                               "machine.intra_host.latency_us"}; // f64 of the compiler
  const std::set<std::string> anyLarge = {"init.kaiming_uniform.fan_in_dim",
                                          "machine.adapters_per_host",
                                          "machine.hosts_per_pod",
                                          "machine.ranks_per_host",
                                          "machine.uplinks_per_pod",
                                          "mesh.axes.size",
                                          "mesh.device_ids",
                                          "optimizer_parallel.threshold_kb",
                                          "rules.priority",
                                          "seed",
                                          "strategy.mesh.axes.size"};
  std::vector<Number> numbers;
  collectNumbers(Job::descriptor(), {}, numbers);
  CHECK(numbers.size() > 40);
  for (const Number &number : numbers) {
    INFO(number.path);
    REQUIRE(findRange(number.path));
    bool isFloat = number.fields.back()->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    auto isRefused = [&](double value) {
      std::string fault = rangeFault(number, value);
      CHECK((fault.empty() || (fault.rfind(number.path + " ", 0) == 0 && fault.find(" is not in ") != std::string::npos)));
      return !fault.empty();
    };
    CHECK(isRefused(-1) == (anySign.count(number.path) == 0));
    CHECK(isRefused(0) == (anySign.count(number.path) + zero.count(number.path) == 0));
    if (!isFloat) {
      CHECK(!isRefused(1));
      CHECK(isRefused(0x1p63) == (anyLarge.count(number.path) == 0)); // the largest of the field's type
      continue;
    }
    CHECK(isRefused(std::numeric_limits<double>::quiet_NaN()));
    CHECK(isRefused(std::numeric_limits<double>::infinity()));
    CHECK(isRefused(-std::numeric_limits<double>::infinity()));
    CHECK(isRefused(1e39));                                             // inf in f32
    CHECK(isRefused(1e-50) == (notOfPrograms.count(number.path) == 0)); // 0 in f32
  }
  Job job = llvm::cantFail(parseJobText(kGood, "job"));
  CHECK(checkRanges(job) == "");
  job.mutable_optimizer()->set_learning_rate(1e-50);
  CHECK(checkRanges(job) == "optimizer.learning_rate 1e-50, in f32 0, is not in (0, 3.40282346638529e+38]");
  job.mutable_optimizer()->set_learning_rate(1e-45); // the least of f32
  CHECK(checkRanges(job) == "");
  job.mutable_optimizer()->mutable_momentum()->set_momentum(0.99999999999);
  CHECK(checkRanges(job) == "optimizer.momentum.momentum 0.99999999999, in f32 1, is not in [0, 1)");
}

} // namespace ashlar::test::fields_test

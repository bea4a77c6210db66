// SPDX-License-Identifier: Apache-2.0
//
// The values of a job, each alone and together. What the model or the data must agree with is checked where those are known.

#include "compiler/job/check_comm_fusion.h"
#include "compiler/job/check_machine.h"
#include "compiler/job/check_parallel.h"
#include "compiler/job/check_rules.h"
#include "compiler/job/check_training.h"
#include "compiler/job/implemented.h"
#include "compiler/job/job.h"
#include "compiler/job/ranges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <set>

using llvm::StringRef;

namespace ashlar::job {

namespace {

// More than any machine has, and few enough that tables over all devices stay small and products do not overflow.
constexpr int64_t kMaxDevices = 65536;

// Checks that every rank plays one point of the mesh.
Fault checkDeviceIds(const Mesh &mesh, int64_t devices) {
  if (mesh.device_ids().empty()) {
    return {};
  }
  if (mesh.device_ids_size() != devices) {
    return llvm::formatv("mesh.device_ids has {0} ranks but the mesh has {1} devices; give the rank of each, row major",
                         mesh.device_ids_size(), devices);
  }
  std::vector<int64_t> pointOf(devices, -1);
  for (auto [point, rank] : llvm::enumerate(mesh.device_ids())) {
    if (rank < 0 || rank >= devices) {
      return llvm::formatv("mesh.device_ids has rank {0} at position {1} but the ranks of {2} devices are 0 to {3}", rank, point, devices,
                           devices - 1);
    }
    if (pointOf[rank] >= 0) {
      return llvm::formatv("mesh.device_ids has rank {0} at positions {1} and {2}; a rank plays one device", rank, pointOf[rank], point);
    }
    pointOf[rank] = point;
  }
  return {};
}

Fault checkMesh(const Mesh &mesh) {
  llvm::StringSet<> names;
  int64_t devices = 1;
  for (const Mesh::Axis &axis : mesh.axes()) {
    StringRef name = axis.name();
    if (name.empty() || !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }) || llvm::isDigit(name[0])) {
      return llvm::formatv("mesh axis name \"{0}\" is not a letter followed by letters, digits and _", name);
    }
    if (!names.insert(name).second) {
      return llvm::formatv("mesh axis \"{0}\" is there twice", name);
    }
    if (!axis.has_size()) {
      return llvm::formatv("mesh axis \"{0}\" has no size", name);
    }
    devices *= axis.size();
    if (devices > kMaxDevices) {
      return llvm::formatv("the mesh has {0} devices up to axis \"{1}\" of size {2} but at most {3} are supported; use smaller axes",
                           devices, name, axis.size(), kMaxDevices);
    }
  }
  return checkDeviceIds(mesh, devices);
}

// Checks a job whose mesh is to be searched for what the search cannot decide. What else is wrong is wrong with every mesh.
Fault checkSearchedMesh(const Job &job) {
  constexpr int kMostAxes = 3;
  const int64_t devices = job.mesh().devices();
  const std::string what = llvm::formatv("mesh.devices {0} has the compiler search the axes", devices);
  if (job.mode() != AUTO) {
    return what + ", which is for mode AUTO, and the mode is " + (job.has_mode() ? Mode_Name(job.mode()) : "not given") +
           "; set mode: AUTO, or name axes and their sizes";
  }
  for (const Mesh::Axis &axis : job.mesh().axes()) {
    if (axis.has_size()) {
      return llvm::formatv("{0}, and axis \"{1}\" has size {2}; leave out one of the two", what, axis.name(), axis.size());
    }
  }
  if (job.mesh().axes_size() > kMostAxes) {
    return llvm::formatv("{0}, at most {1}, and {2} are named; leave some out", what, kMostAxes, job.mesh().axes_size());
  }
  if (job.mesh().device_ids_size() != 0) {
    return what + ", and mesh.device_ids gives the rank of each of their points; leave out one of the two";
  }
  if (job.has_pipeline() && job.pipeline().stages() > 0 && devices % job.pipeline().stages() != 0) {
    return llvm::formatv("mesh.devices {0} is not divisible by pipeline.stages {1}; each stage has as many devices", devices,
                         job.pipeline().stages());
  }
  if (job.has_strategy()) {
    return what + ", and the strategy has the layouts of one; give the job its mesh, or load the strategy by --load-strategy";
  }
  return {};
}

Fault checkMode(const Job &job) {
  int64_t devices = numDevices(job);
  if (job.has_search() && job.mode() != AUTO) {
    return "search " + Search_Name(job.search()) + " is of mode AUTO, and the mode is " + Mode_Name(effectiveMode(job)) +
           "; set mode: AUTO, or leave it out";
  }
  if (!job.has_mode()) {
    return job.mesh().axes_size() > 1 ? llvm::formatv("a mesh of {0} axes needs a mode; set mode: DATA_PARALLEL to split the batch along "
                                                      "all of them, or SEMI_AUTO and rules",
                                                      job.mesh().axes_size())
                                            .str()
                                      : "";
  }
  if (job.mode() == STAND_ALONE && devices > 1) {
    return llvm::formatv("mode STAND_ALONE runs on 1 device but the mesh has {0}; set mode: DATA_PARALLEL or leave the mesh out", devices);
  }
  if (job.mode() == DATA_PARALLEL && job.mesh().axes_size() == 0) {
    return "mode DATA_PARALLEL needs a mesh; add mesh { axes { name: \"dp\" size: 4 } }";
  }
  if ((job.mode() == SEMI_AUTO || job.mode() == AUTO || job.mode() == HYBRID) && job.mesh().axes_size() == 0) {
    return "mode " + Mode_Name(job.mode()) + " needs a mesh; add mesh { axes { name: \"tp\" size: 4 } }";
  }
  return {};
}

Fault checkBatch(const Job &job) {
  if (job.has_loss() && !job.has_global_batch()) {
    return "a loss needs global_batch, the number of samples of a step";
  }
  if (job.accumulate() == 1 || job.has_pipeline()) {
    return {};
  }
  if (!job.has_loss()) {
    return llvm::formatv("accumulate {0} is for training steps but the job has no loss; leave it out", job.accumulate());
  }
  return job.global_batch() % job.accumulate() == 0
             ? ""
             : llvm::formatv("accumulate {0} does not divide global_batch {1}; all micro-batches have "
                             "one size, use a multiple of {0}",
                             job.accumulate(), job.global_batch())
                   .str();
}

// Returns what an entry of dims is about: "name "sequence"".
std::string describeDim(const Dim &dim) {
  std::string text = dim.has_name() ? "name \"" + dim.name() + "\"" : "";
  text += dim.has_input() ? (text.empty() ? "" : ", ") + ("input \"" + dim.input() + "\"") : "";
  text += dim.has_dim() ? (text.empty() ? "" : ", ") + ("dim " + std::to_string(dim.dim())) : "";
  return text.empty() ? "neither" : text;
}

Fault checkDims(const Job &job) {
  std::set<std::pair<std::string, int64_t>> places;
  for (const Dim &dim : job.dims()) {
    const bool isPlaced = dim.has_input() || dim.has_dim();
    if (isPlaced ? dim.has_name() || dim.input().empty() || !dim.has_dim() : dim.name().empty()) {
      return "dims needs the name of a symbolic dim, or an input and one of its dims, has " + describeDim(dim) +
             "; write dims { name: \"sequence\" size: 128 } or dims { input: \"x\" dim: 1 size: 128 }";
    }
    if (!dim.has_size()) {
      return "dims has no size for " + describeDim(dim) + "; add size: 128, or another one";
    }
    if (!places.insert({isPlaced ? dim.input() : dim.name(), isPlaced ? dim.dim() : -1}).second) {
      return "dims has two sizes for " + describeDim(dim) + "; leave out one";
    }
  }
  return {};
}

Fault checkInputs(const Job &job) {
  llvm::StringSet<> names;
  for (const KnownInput &input : job.inputs()) {
    if (input.name().empty() || input.value().empty()) {
      return llvm::formatv("inputs needs the name of an input and its value, has name \"{0}\" and {1} numbers; write "
                           "inputs {{ name: \"rate\" value: 16000 }",
                           input.name(), input.value_size());
    }
    if (!names.insert(input.name()).second) {
      return llvm::formatv("inputs gives \"{0}\" two values; leave out one", input.name());
    }
  }
  return {};
}

Fault checkTies(const Job &job) {
  llvm::StringSet<> tied;
  for (const Tie &tie : job.ties()) {
    if (tie.parameter().empty() || tie.to().empty() || tie.parameter() == tie.to()) {
      return llvm::formatv("ties needs two parameters, has \"{0}\" and \"{1}\"; write ties {{ parameter: \"lm_head.weight\" to: "
                           "\"wte.weight\" }",
                           tie.parameter(), tie.to());
    }
    if (!tied.insert(tie.parameter()).second) {
      return llvm::formatv("ties names parameter \"{0}\" twice; leave out one", tie.parameter());
    }
  }
  for (const Tie &tie : job.ties()) {
    if (tied.contains(tie.to())) {
      return llvm::formatv("ties \"{0}\" to \"{1}\", which is tied itself; name the parameter it is tied to", tie.parameter(), tie.to());
    }
  }
  return {};
}

// The words are for all initializers.
Fault checkUntie(const Job &job) {
  for (const std::string &glob : job.untie()) {
    if (glob.empty()) {
      return "untie names no initializer; write a glob such as \"*.norm.bias\", AUTO or NEVER";
    }
    if (glob == "NEVER" && job.untie_size() > 1) {
      return llvm::formatv("untie is NEVER and \"{0}\"; leave out one", job.untie(job.untie(0) == "NEVER" ? 1 : 0));
    }
  }
  return {};
}

Fault checkInit(const Init &init) {
  if (init.match().empty()) {
    return "an init has no match; name parameters by a glob such as \"layer1.*\"";
  }
  switch (init.kind_case()) {
  case Init::kUniform: {
    const Init::Uniform &uniform = init.uniform();
    bool isRange = uniform.has_low() && uniform.has_high() && static_cast<float>(uniform.low()) < static_cast<float>(uniform.high());
    return isRange ? ""
                   : llvm::formatv("init.uniform of \"{0}\" needs low < high in f32, has {1} and {2}", init.match(),
                                   llvm::format("%.15g", uniform.low()), llvm::format("%.15g", uniform.high()))
                         .str();
  }
  case Init::kNormal:
    return init.normal().has_std() ? "" : llvm::formatv("init.normal of \"{0}\" has no std", init.match()).str();
  case Init::kKaimingUniform:
  case Init::kFill:
  case Init::kXavierUniform:
    return {};
  case Init::KIND_NOT_SET:
    break;
  }
  return llvm::formatv("the init of \"{0}\" names no kind; one of fill, uniform, normal, kaiming_uniform, xavier_uniform", init.match());
}

Fault findFault(const Job &job) {
  auto forEach = [](const auto &items, auto check) {
    for (const auto &item : items) {
      if (Fault fault = check(item); !fault.empty()) {
        return fault;
      }
    }
    return Fault();
  };
  if (Fault fault = checkRanges(job); !fault.empty()) {
    return fault;
  }
  if (job.mesh().has_devices()) {
    return checkSearchedMesh(job);
  }
  if (Fault fault = checkMesh(job.mesh()); !fault.empty()) {
    return fault;
  }
  for (auto check : {checkMode, checkRules, checkStrategy, checkMachine, checkCommFusion, checkPipeline, checkBatch, checkDims, checkInputs,
                     checkTies, checkUntie, checkDeterministic, checkTraining, checkOptimizerParallel}) {
    if (Fault fault = check(job); !fault.empty()) {
      return fault;
    }
  }
  return forEach(job.init(), checkInit);
}

} // namespace

Mode effectiveMode(const Job &job) {
  if (job.has_mode()) {
    return job.mode();
  }
  return job.mesh().axes_size() == 0 ? STAND_ALONE : DATA_PARALLEL;
}

int64_t numDevices(const Job &job) {
  int64_t devices = 1;
  for (const Mesh::Axis &axis : job.mesh().axes()) {
    devices *= axis.size();
  }
  return devices;
}

std::vector<std::string> batchAxes(const Job &job) {
  std::vector<std::string> axes;
  if (effectiveMode(job) == DATA_PARALLEL) {
    for (const Mesh::Axis &axis : job.mesh().axes()) {
      axes.push_back(axis.name());
    }
  }
  return axes;
}

int64_t batchReplicas(const Job &job) {
  return batchAxes(job).empty() ? 1 : numDevices(job); // all axes split it, or none
}

int64_t programBatch(const Job &job) {
  return job.global_batch() / microBatches(job);
}

int64_t microBatches(const Job &job) {
  return job.has_pipeline() ? job.pipeline().micro_batches() : job.accumulate();
}

bool infersSequences(const Job &job) {
  const Mode mode = effectiveMode(job);
  return job.has_loss() && !job.has_strategy() && (mode == SEMI_AUTO || (mode == AUTO && job.search() == PROPAGATION));
}

bool keepsCollectives(const Job &job) {
  return llvm::any_of(job.rules(), [](const Rule &rule) { return rule.has_recompute_comm() && !rule.recompute_comm(); });
}

std::string labelsName(const Job &job) {
  switch (job.loss().kind_case()) {
  case Loss::kSoftmaxCrossEntropy:
    return job.loss().softmax_cross_entropy().labels();
  case Loss::kMeanSquaredError:
    return job.loss().mean_squared_error().target();
  case Loss::kNegativeLogLikelihood:
    return job.loss().negative_log_likelihood().labels();
  default:
    return "";
  }
}

std::optional<int64_t> ignoredLabel(const Job &job) {
  auto ignoredOf = [](const auto &loss) { return loss.has_ignore_index() ? std::optional<int64_t>(loss.ignore_index()) : std::nullopt; };
  switch (job.loss().kind_case()) {
  case Loss::kSoftmaxCrossEntropy:
    return ignoredOf(job.loss().softmax_cross_entropy());
  case Loss::kNegativeLogLikelihood:
    return ignoredOf(job.loss().negative_log_likelihood());
  default:
    return std::nullopt;
  }
}

bool takesMeanOfMicroBatches(const Job &job) {
  switch (job.loss().kind_case()) {
  case Loss::kSoftmaxCrossEntropy:
    return job.loss().softmax_cross_entropy().micro_batches() == Loss::MEAN;
  case Loss::kMeanSquaredError:
    return job.loss().mean_squared_error().micro_batches() == Loss::MEAN;
  case Loss::kNegativeLogLikelihood:
    return job.loss().negative_log_likelihood().micro_batches() == Loss::MEAN;
  case Loss::kModelOutput:
    return job.loss().model_output().micro_batches() == Loss::MEAN;
  case Loss::KIND_NOT_SET:
    break;
  }
  return false;
}

void takeExactLoss(Job &job) {
  Loss &loss = *job.mutable_loss();
  switch (loss.kind_case()) {
  case Loss::kSoftmaxCrossEntropy:
    return loss.mutable_softmax_cross_entropy()->clear_micro_batches();
  case Loss::kMeanSquaredError:
    return loss.mutable_mean_squared_error()->clear_micro_batches();
  case Loss::kNegativeLogLikelihood:
    return loss.mutable_negative_log_likelihood()->clear_micro_batches();
  case Loss::kModelOutput:
    return loss.mutable_model_output()->clear_micro_batches();
  case Loss::KIND_NOT_SET:
    break;
  }
}

std::string lossName(const Job &job) {
  switch (job.loss().kind_case()) {
  case Loss::kSoftmaxCrossEntropy:
    return job.loss().softmax_cross_entropy().logits();
  case Loss::kMeanSquaredError:
    return job.loss().mean_squared_error().prediction();
  case Loss::kNegativeLogLikelihood:
    return job.loss().negative_log_likelihood().log_probabilities();
  case Loss::kModelOutput:
    return job.loss().model_output().tensor();
  case Loss::KIND_NOT_SET:
    break;
  }
  return "";
}

llvm::Error checkJob(const Job &job, StringRef name) {
  Fault fault;
  if (auto found = findUnimplemented(job)) {
    fault = found->what + " is not implemented yet";
  } else {
    fault = findFault(job);
  }
  if (fault.empty()) {
    return llvm::Error::success();
  }
  return llvm::createStringError(llvm::inconvertibleErrorCode(), name + ": " + fault);
}

} // namespace ashlar::job

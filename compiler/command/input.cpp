// SPDX-License-Identifier: Apache-2.0
//
// Options first, then the job, then constraints between both.

#include "compiler/command/input.h"

#include "compiler/command/byte_count.h"
#include "compiler/file/output_file.h"
#include "compiler/job/machine_file.h"
#include "compiler/strategy/strategy.h"
#include "dialects/exec/target_traits.h"

#include "llvm/Support/FileSystem.h"

using llvm::createStringError;
using llvm::StringRef;

namespace ashlar::command {
namespace {

// Notes the files of the options. Fails where one cannot be written, or is one that is read or another one that is written.
llvm::Error addFiles(const Options &options, file::FileRoles &files) {
  const std::pair<StringRef, StringRef> inputs[] = {{"the model", options.model},
                                                    {"the job", options.job},
                                                    {"the machine of --machine", options.machine},
                                                    {"the strategy of --load-strategy", options.loadStrategy},
                                                    {"the trace of --trace", options.trace},
                                                    {"the report of --compare", options.compare}};
  const std::pair<StringRef, StringRef> outputs[] = {{"-o", options.output},
                                                     {"--report", options.report},
                                                     {"--html", options.html},
                                                     {"--save-strategy", options.saveStrategy},
                                                     {"--save-order", options.saveOrder},
                                                     {"--annotate", options.annotated},
                                                     {"--timeline", options.timeline}};
  for (const auto &[role, path] : inputs) {
    if (llvm::Error error = files.addInput(role, path)) {
      return error;
    }
  }
  for (const auto &[role, path] : outputs) {
    if (llvm::Error error = file::checkOutput(path)) {
      return error;
    }
    if (llvm::Error error = files.addOutput(role, path)) {
      return error;
    }
  }
  bool isBinary = options.emit == Emit::Obj || options.emit == Emit::Exe;
  return isBinary ? file::checkReplaceable(options.output) : llvm::Error::success();
}

// Reads the options that need no job.
llvm::Error readOptions(const Options &options, Input &input) {
  llvm::Expected<std::unique_ptr<CodeTarget>> target = chooseTarget(options);
  if (!target) {
    return target.takeError();
  }
  input.target = std::move(*target);
  if (!options.memory.empty()) {
    llvm::Expected<int64_t> bytes = parseByteCount(options.memory);
    if (!bytes) {
      return createStringError("--memory: " + llvm::toString(bytes.takeError()));
    }
    input.memoryLimit = *bytes;
  }
  if (!options.dumpFolder.empty()) {
    if (std::error_code error = llvm::sys::fs::create_directories(options.dumpFolder)) {
      return createStringError(error, "cannot create the folder " + options.dumpFolder + ": " + error.message());
    }
  }
  return addFiles(options, input.files);
}

// Returns the fields of a job that a search for the mesh sets besides the mesh: "pipeline { stages: 2 }", or "none".
std::string textBesideMesh(job::Job found) {
  found.clear_mesh();
  return found.ByteSizeLong() == 0 ? "none" : StringRef(found.ShortDebugString()).trim().str();
}

// Adds a loaded strategy to a job, with the fields that a search for the mesh found.
llvm::Error addStrategy(const job::Job &loaded, StringRef path, job::Job &job) {
  const job::Job found = strategy::foundFields(loaded);
  const bool searches = job.mesh().has_devices();
  if (searches && !found.has_mesh()) {
    return createStringError(path +
                             ": holds the layouts of a mesh, but not the mesh, and the job has its mesh searched; give the job the mesh");
  }
  if (searches && job::numDevices(found) * std::max(1, found.pipeline().stages()) != job.mesh().devices()) {
    return createStringError(path + ": holds the layouts of " +
                             std::to_string(job::numDevices(found) * std::max(1, found.pipeline().stages())) +
                             " devices, and the job's mesh has " + std::to_string(job.mesh().devices()) + "; search it again");
  }
  if (searches) {
    job::Job own = strategy::foundFields(job), both = found;
    own.clear_mesh();
    both.MergeFrom(own);
    if (both.SerializeAsString() != found.SerializeAsString()) {
      return createStringError(path + ": of pipeline, accumulate, optimizer_parallel and recompute the search found " +
                               textBesideMesh(found) + ", and the job has " + textBesideMesh(own) +
                               "; leave the job's own out, or search again");
    }
    job.clear_mesh();
    job.MergeFrom(found);
  } else if (found.ByteSizeLong() != 0 && found.SerializeAsString() != strategy::foundFields(job).SerializeAsString()) {
    return createStringError(path +
                             ": has the mesh, pipeline, accumulate, optimizer_parallel and recompute that a search found, and the job has "
                             "others; leave them out except mesh { devices: N }, or search again");
  }
  *job.mutable_strategy() = loaded.strategy();
  return llvm::Error::success();
}

// Reads the job and lets the command line's mesh, machine and strategy take the place of its own.
llvm::Error readJob(const Options &options, Input &input) {
  if (!options.job.empty()) {
    llvm::Expected<job::Job> job = job::parseJob(options.job);
    if (!job) {
      return job.takeError();
    }
    input.job = *job;
  }
  if (!options.mesh.empty()) {
    llvm::Expected<job::Mesh> mesh = job::parseMesh(options.mesh);
    if (!mesh) {
      return mesh.takeError();
    }
    *input.job.mutable_mesh() = *mesh;
  }
  if (options.generates) {
    job::takeGeneration(input.job);
  }
  if (options.batch != 0) {
    if (input.job.has_global_batch()) {
      return createStringError("--batch " + std::to_string(options.batch) + " is for jobs without global_batch, and that of " +
                               options.job + " has " + std::to_string(input.job.global_batch()) + "; leave out one of the two");
    }
    input.job.set_global_batch(options.batch);
  } else if (job::generatesText(input.job) && !input.job.has_global_batch()) {
    input.job.set_global_batch(1);
  }
  if (!options.machine.empty()) {
    llvm::Expected<job::Machine> machine = job::readMachine(options.machine);
    if (!machine) {
      return machine.takeError();
    }
    *input.job.mutable_machine() = *machine;
  }
  if (!options.loadStrategy.empty()) {
    llvm::Expected<job::Job> strategy = strategy::loadStrategy(options.loadStrategy);
    if (!strategy) {
      return strategy.takeError();
    }
    if (llvm::Error error = addStrategy(*strategy, options.loadStrategy, input.job)) {
      return error;
    }
  }
  return input.files.addInput("the order of the pipeline", input.job.pipeline().order());
}

// Options that a model of mode HYBRID excludes: its layouts are in its collectives.
llvm::Error checkHybridOptions(const Options &options, const job::Job &job) {
  const char *option = !options.annotated.empty() ? "--annotate" : !options.saveStrategy.empty() ? "--save-strategy" : nullptr;
  return option && job::effectiveMode(job) == job::HYBRID
             ? createStringError(std::string(option) + " writes layouts of tensors, but a model of mode HYBRID is the program of one "
                                                       "device, with its collectives; leave the option out")
             : llvm::Error::success();
}

// Fields of a job for one target only.
llvm::Error checkJobForTarget(const job::Job &job, exec::Target target) {
  const exec::TargetTraits &traits = exec::traitsOf(target);
  std::string name = exec::stringifyTarget(target).str();
  if (!traits.playsDevices && job.deterministic().always()) {
    return createStringError("deterministic.always asks for the deterministic variant alone, which the target " + name +
                             " does not have; leave it out, or compile for cpu");
  }
  if (!traits.hasPresets && job.machine().has_preset()) {
    return createStringError("machine.preset " + job::Machine::Preset_Name(job.machine().preset()) + " is of GPUs, and the target is " +
                             name + "; leave it out, or compile for cuda");
  }
  if (!traits.hasTf32 && job.allow_tf32()) {
    return createStringError("allow_tf32 is for --target cuda; the target is " + name + ", which computes products in f32");
  }
  return llvm::Error::success();
}

// Requirements of options on a job, and of a job on options.
llvm::Error checkJobForOptions(const Options &options, const job::Job &job, const Input &input) {
  if (job.recompute() == job::Recompute::AUTO && input.memoryLimit == 0) {
    return createStringError("recompute: AUTO computes as much again as a device's memory asks for, and no limit is given; add "
                             "--memory 80GB, or rules { match: \"layer*\" recompute: true }");
  }
  if (llvm::Error error = checkJobForTarget(job, input.target->kind())) {
    return error;
  }
  if (!options.timeline.empty() && !job.has_pipeline()) {
    return createStringError("--timeline draws the stages of a pipeline, and the job has none; give it one, for instance "
                             "pipeline { stages: 2 micro_batches: 8 }, or leave the option out");
  }
  if (!options.saveOrder.empty() && !job.has_pipeline()) {
    return createStringError("--save-order writes the order of the stages of a pipeline, and the job has none; leave it out");
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Input> readUnchecked(const Options &options) {
  Input input;
  if (llvm::Error error = readOptions(options, input)) {
    return std::move(error);
  }
  if (llvm::Error error = readJob(options, input)) {
    return std::move(error);
  }
  return input;
}

llvm::Error checkInput(const Options &options, const job::Job &job, const Input &input) {
  if (llvm::Error error = checkHybridOptions(options, job)) {
    return error;
  }
  if (llvm::Error error = job::checkJob(job, options.job.empty() ? "command line" : options.job)) {
    return error;
  }
  return checkJobForOptions(options, job, input);
}

llvm::Expected<Input> readInput(const Options &options) {
  llvm::Expected<Input> input = readUnchecked(options);
  if (!input) {
    return input;
  }
  if (llvm::Error error = checkInput(options, input->job, *input)) {
    return std::move(error);
  }
  return input;
}

} // namespace ashlar::command

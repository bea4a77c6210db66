// SPDX-License-Identifier: Apache-2.0
//
// ashlar_rt_main(): command line, variant, ranks, then the run. The one place that prints errors and makes an exit status of them.

#include "runtime/base/host.h"
#include "runtime/base/output_file.h"
#include "runtime/base/process.h"
#include "runtime/comm/launch/job.h"
#include "runtime/run/checkpoint/saver.h"
#include "runtime/run/cpu_check.h"
#include "runtime/run/same_options.h"
#include "runtime/run/session.h"
#include "runtime/run/target_runtime.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include <unistd.h>

namespace ashlar::rt {
namespace {

// The time that a rank with a shared failure leaves another one to print the error and to end: mpirun ends all ranks as soon as one has
// failed, and returns the exit status of the first. On several hosts it kills those of its own host first, a second after asking them, and
// then tells the others: 2 s, and more on a busy machine.
constexpr useconds_t kSilenceMicroseconds = 3000 * 1000, kSilenceBetweenHostsMicroseconds = 10000 * 1000;

// The exit status of a run that a restart would not help (docs/faults.md).
constexpr int kNonfiniteStatus = 3;

int exitStatusOf(const Status &status) {
  return status.ok() ? 0 : status.code() == StatusCode::kNonfinite ? kNonfiniteStatus : 1;
}

// A variant by its name; null when there is none.
const ashlar_rt_variant *findVariant(const ashlar_rt_image &image, const char *name) {
  for (uint32_t i = 0; i < image.num_variants; ++i) {
    if (std::strcmp(image.variants[i].name, name) == 0) {
      return &image.variants[i];
    }
  }
  return nullptr;
}

// Finds the variant of the options: its first stage.
Status chooseVariant(const ashlar_rt_image &image, const Options &options, const ashlar_rt_variant *&variant) {
  if (options.deterministic) {
    variant = findVariant(image, "deterministic");
  } else if (variant = image.num_variants > 0 ? &image.variants[0] : nullptr; variant == nullptr) {
    return internal("the image has no variant");
  }
  if (variant != nullptr && variant->stage != 0) {
    return internal("the first variant {} belongs to stage {}", variant->name, variant->stage);
  }
  if (variant != nullptr) {
    return Stages(*variant).check(image.num_variants - static_cast<uint32_t>(variant - image.variants));
  }
  const char *reason = image.deterministic_refusal;
  return invalid("{}", reason != nullptr ? reason : "--deterministic: the program was compiled without a deterministic variant");
}

// " (4 stages of dp=2 tp=2)".
std::string describeStages(const ashlar_rt_variant &variant) {
  std::string axes;
  for (uint32_t i = 0; i < variant.num_axes; ++i) {
    axes += fmt::format(" {}={}", variant.axes[i].name, variant.axes[i].size);
  }
  return fmt::format(" ({} stages of{})", variant.num_stages, axes.empty() ? " one device" : axes);
}

// Checks that the job has the program's number of ranks. `variant`: the first stage's.
Status checkRanks(const Job &job, const ashlar_rt_variant &variant) {
  Mesh mesh(variant);
  ASHLAR_RETURN_IF_ERROR(mesh.check());
  int needed = mesh.processes() * static_cast<int>(Stages(variant).size());
  if (job.processes() == needed) {
    return Status();
  }
  std::string chunks = variant.num_stages > 1          ? describeStages(variant)
                       : mesh.devicesPerProcess() == 1 ? ""
                                                       : fmt::format(" of {} chunks each", mesh.devicesPerProcess());
  const Launcher *launcher = job.launch().launcher;
  std::string remedy = needed == 1 ? fmt::format("without {}", launcher->name) : "with " + job.launch().startText(needed);
  if (launcher == nullptr) {
    return invalid("started alone but the program was compiled for {} ranks{}; run it {}", needed, chunks, remedy);
  }
  return invalid("{} ranks at launch but the program was compiled for {}{}; run it {}", job.processes(), needed, chunks, remedy);
}

// Reports a failure, once for the job. A shared failure is reported by rank 0, unless it runs another program and has no error: then mpirun
// ends this one.
void report(const Status &status, const Job &job) {
  bool aborted = status.code() == StatusCode::kAborted;
  if (aborted || (status.isShared() && job.rank() != 0)) {
    usleep(job.launch().isOnOneHost ? kSilenceMicroseconds : kSilenceBetweenHostsMicroseconds);
  }
  if (!aborted) {
    std::fflush(stdout);
    printError(status.message());
  }
}

// The run of a rank once it has an executor.
Status runProgram(const ashlar_rt_image &image, const ashlar_rt_variant &variant, const Options &options, const Job &job,
                  Communicator &communicator, Executor &executor, Recorder *recorder, Exchange *copies, const Cores &cores) {
  Session session;
  session.image = &image;
  session.variant = &variant;
  session.options = &options;
  session.communicator = &communicator;
  session.executor = &executor;
  session.recorder = recorder;
  session.copies = copies;
  session.launcher = job.launch().launcher;
  session.threads = cores.threads;
  session.dataThreads = options.dataThreads > 0 ? options.dataThreads : cores.ofData;
  const Run *run = image.training != nullptr     ? &ASHLAR_RT_COMPONENT(train)
                   : image.generation != nullptr ? &ASHLAR_RT_COMPONENT(generate)
                                                 : &ASHLAR_RT_COMPONENT(forward);
  ASHLAR_RETURN_IF_ERROR(run != nullptr ? (*run)(session) : internal("the program was linked without its kind of run; compile it again"));
  return executor.close();
}

// One run by one rank. Returns a failure that is still to be reported; `exitStatus` becomes the status of any failure.
Status runJob(const ashlar_rt_image &image, const TargetRuntime &target, const Options &options, Job &job, int &exitStatus) {
  const ashlar_rt_variant *variant = nullptr;
  ASHLAR_RETURN_IF_ERROR(chooseVariant(image, options, variant).share());
  ASHLAR_RETURN_IF_ERROR(checkRanks(job, *variant).share());
  ASHLAR_RETURN_IF_ERROR(job.launch().checkMeeting().share());
  std::vector<uint64_t> hostBytes; // by stage
  for (const ashlar_rt_variant &stage : Stages(*variant)) {
    hostBytes.push_back(target.hostBytes(stage));
  }
  variant += job.rank() / Mesh(*variant).processes();
  if (job.launch().launcher != nullptr && job.launch().launcher->endsWithParent) {
    endWithParent();
  }
  std::unique_ptr<Communicator> communicator;
  ASHLAR_RETURN_IF_ERROR(job.connect(*variant, hostBytes, image.program_hash, communicator));
  ASHLAR_RETURN_IF_ERROR(communicator->agree(checkSameOptions(options, *communicator)));
  Cores cores = target.cores(options, job);
  ThreadPool pool;
  ASHLAR_RETURN_IF_ERROR(communicator->agree(pool.start(cores.threads)));
  communicator->setThreadPool(&pool, cores.onHost);
  // Also for a thread that finds this one stuck in a library.
  auto fail = [&](const Status &status) {
    // Reported before it ends the others: ending them may end this process too. A rank without an error of its own leaves the report to
    // another one; while it waits for that report, others of its host must not wait for this rank, and name it.
    const bool isAborted = status.code() == StatusCode::kAborted;
    if (isAborted) {
      communicator->giveUpToo();
    }
    report(!isAborted && communicator->giveUp() ? status : abortedStatus(), job);
    communicator->abort();
  };
  Recorder recorder; // outlives the executor
  std::unique_ptr<Executor> executor;
  Recorder *const records = options.traceFile.empty() ? nullptr : &recorder;
  ExecutorOptions how{options.profile, options.checkNumerics, options.graph, records};
  Status status = target.createExecutor({image, *variant, *communicator, pool, how, fail}, executor);
  std::unique_ptr<Exchange> copies;
  if (status.ok()) {
    status = prepareCopies(options, *communicator, copies);
  }
  if (status.ok()) {
    status = communicator->seal();
  }
  if (status.ok()) {
    status = runProgram(image, *variant, options, job, *communicator, *executor, records, copies.get(), cores);
  }
  exitStatus = exitStatusOf(status);
  const bool hasFailed = !status.ok();
  if (hasFailed && !status.isShared()) {
    fail(status);
    status = Status();
  }
  if (hasFailed && executor && executor->mayHang()) {
    if (!status.ok()) {
      report(status, job);
    }
    std::fflush(nullptr);
    removePendingOutputs();
    _exit(exitStatus);
  }
  if (hasFailed) {
    return status;
  }
  ASHLAR_RETURN_IF_ERROR(communicator->barrier());
  if (options.profile && job.rank() == 0) {
    std::fputs(executor->profile(options.profileAll).c_str(), stdout);
  }
  job.finish();
  return Status();
}

int runMain(const ashlar_rt_image &image, int argc, char **argv) {
  Job job;
  if (image.abi_version != ASHLAR_RT_ABI_VERSION) {
    report(
        internal("the image has ABI version {} but the runtime has {}; compile it again", image.abi_version, ASHLAR_RT_ABI_VERSION).share(),
        job);
    return 1;
  }
  if (Status capable = checkCpu(image.cpu_features); !capable.ok()) {
    // Not every host may lack it: the first rank of each that does speaks.
    report(job.launch().localRank != 0 ? capable.share() : capable, job);
    return 1;
  }
  if (Status placed = job.check(); !placed.ok()) {
    report(placed.share(), job);
    return 1;
  }
  const TargetRuntime *target = findTargetRuntime(image);
  if (target == nullptr) {
    report(internal("the image is for the target \"{}\", which this runtime does not know; compile it again", image.target).share(), job);
    return 1;
  }
  Options options;
  std::string helpText;
  if (Status parsed = parseOptions(image, *target, argc, argv, options, helpText); !parsed.ok()) {
    report(parsed.share(), job);
    return 1;
  }
  if (!helpText.empty() || options.plan) {
    if (job.rank() == 0) {
      std::fputs(!helpText.empty() ? helpText.c_str() : image.plan, stdout);
    }
    return 0;
  }
  int exitStatus = 0;
  Status status = runJob(image, *target, options, job, exitStatus);
  if (status.ok()) {
    return exitStatus;
  }
  report(status, job);
  return std::max(exitStatus, 1);
}

} // namespace
} // namespace ashlar::rt

int ashlar_rt_main(const ashlar_rt_image *image, int argc, char **argv) {
  using namespace ashlar::rt;
  prepareProcess();
  try {
    const int status = runMain(*image, argc, argv);
    return status != 0 || finishOutput() ? status : 1;
  } catch (const std::bad_alloc &) {
    printError("out of memory; raise the limit of the process (ulimit -v), or run where more memory is free");
  } catch (const std::exception &error) {
    printError(error.what());
  }
  return 1;
}

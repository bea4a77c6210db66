// SPDX-License-Identifier: Apache-2.0
//
// What a training run tells: log lines, a progress bar, losses as JSON lines, a log file for each rank.

#include "runtime/run/training_log.h"

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/clock.h"
#include "runtime/base/directories.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr int kBarWidth = 30;
constexpr double kBarSeconds = 0.1;

// Whether the reader of standard error sits at a terminal. mpirun gives its children a pipe there and passes on what they write, so under
// mpirun it is mpirun's own standard error that counts.
bool onTerminal(bool underMpirun) {
  if (isatty(STDERR_FILENO)) {
    return true;
  }
  if (!underMpirun) {
    return false;
  }
  char target[64] = {};
  std::string link = fmt::format("/proc/{}/fd/2", getppid());
  ssize_t length = readlink(link.c_str(), target, sizeof(target) - 1);
  return length > 0 && (std::strncmp(target, "/dev/pts/", 9) == 0 || std::strncmp(target, "/dev/tty", 8) == 0);
}

// Writes to standard error. fmt::print() throws when the stream does not take it all.
void tell(const std::string &text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

// Appends a line to a log. The run goes on when that fails; close() tells.
void append(OutputFile &log, const std::string &line) {
  (void)log.write(line.data(), line.size()).ok();
}

} // namespace

std::string lossText(double loss, uint32_t dtype) {
  return dtype == ASHLAR_RT_F64 ? fmt::format("{}", loss) : fmt::format("{}", static_cast<float>(loss));
}

Status TrainingLog::open(const Options &options, int rank, bool underMpirun, uint64_t totalSteps, uint64_t samplesPerStep) {
  prints = rank == 0;
  bar = prints && onTerminal(underMpirun);
  begin = seconds();
  total = totalSteps;
  samples = samplesPerStep;
  if (prints && !options.metricsFile.empty()) {
    ASHLAR_RETURN_IF_ERROR(metrics.createLog(options.metricsFile));
  }
  if (!options.logDirectory.empty()) {
    ASHLAR_RETURN_IF_ERROR(makeDirectories(options.logDirectory));
    std::string path = workerLog(options.logDirectory, rank);
    if (prints && fileIdentity(path) == fileIdentity(options.metricsFile)) {
      return invalid("--metrics {} is the log of this rank too, by --log-dir {}; give each a file of its own", options.metricsFile,
                     options.logDirectory);
    }
    ASHLAR_RETURN_IF_ERROR(worker.createLog(path));
  }
  return Status();
}

std::string TrainingLog::workerLog(const std::string &directory, int rank) {
  return fmt::format("{}/worker_{}.log", directory, rank);
}

void TrainingLog::loss(uint64_t epoch, uint64_t step, double loss, uint32_t dtype, double elapsed) {
  std::string text = lossText(loss, dtype);
  line(fmt::format("epoch: {} step: {}, loss is {}", epoch, step, text));
  if (metrics.isOpen()) {
    // JSON has no nan and no inf.
    append(metrics, fmt::format("{{\"epoch\": {}, \"step\": {}, \"loss\": {}, \"seconds\": {:.6f}}}\n", epoch, step,
                                std::isfinite(loss) ? text : "null", elapsed));
  }
}

void TrainingLog::line(const std::string &text) {
  if (prints) {
    clearBar();
    std::fwrite((text + "\n").data(), 1, text.size() + 1, stdout);
    if (std::fflush(stdout) != 0 && outputError == 0) {
      outputError = errno;
    }
  }
  if (worker.isOpen()) {
    append(worker, text + "\n");
  }
}

void TrainingLog::drawBar(uint64_t doneSteps) {
  double now = seconds();
  if (now < barDue && doneSteps != total) {
    return;
  }
  barDue = now + kBarSeconds;
  int filled = total == 0 ? kBarWidth : static_cast<int>(doneSteps * kBarWidth / total);
  double rate = static_cast<double>(doneSteps * samples) / std::max(now - begin, 1e-9);
  tell(fmt::format("\r[{:=<{}}{:{}}] {}/{} {:.0f} samples/s\033[K", "", filled, "", kBarWidth - filled, doneSteps, total, rate));
  barVisible = true;
}

void TrainingLog::clearBar() {
  if (barVisible) {
    tell("\r\033[K");
    barVisible = false;
  }
}

Status TrainingLog::close() {
  clearBar();
  bar = false;
  Status status = outputError == 0 ? Status() : unavailable("cannot write all of standard output: {}", std::strerror(outputError));
  status.update(metrics.close());
  status.update(worker.close());
  return status;
}

} // namespace ashlar::rt

// SPDX-License-Identifier: Apache-2.0
//
// What a training run tells: log lines, a progress bar, losses as JSON lines, a log file for each rank.

#include "runtime/launch/training_log.h"

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/clock.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <sys/stat.h>
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

Status openFile(const std::string &path, FILE *&file) {
  file = std::fopen(path.c_str(), "w");
  return file != nullptr ? Status() : unavailable("cannot write {}: {}", path, std::strerror(errno));
}

Status closeFile(const std::string &path, FILE *&file) {
  if (file == nullptr) {
    return Status();
  }
  bool failed = std::ferror(file) != 0;
  failed = std::fclose(file) != 0 || failed;
  file = nullptr;
  return failed ? unavailable("cannot write all of {}: {}", path, std::strerror(errno)) : Status();
}

// Makes the directory and those above it.
Status makeDirectories(const std::string &path) {
  for (size_t slash = 1; slash != std::string::npos; ++slash) {
    slash = path.find('/', slash);
    std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      return unavailable("cannot make the directory {}: {}", part, std::strerror(errno));
    }
    if (slash == std::string::npos) {
      break;
    }
  }
  return Status();
}

} // namespace

std::string lossText(double loss, uint32_t dtype) {
  return dtype == ASHLAR_RT_F64 ? fmt::format("{}", loss) : fmt::format("{}", static_cast<float>(loss));
}

TrainingLog::~TrainingLog() {
  for (FILE *file : {metrics, worker}) {
    if (file != nullptr) {
      std::fclose(file);
    }
  }
}

Status TrainingLog::open(const Options &options, int rank, bool underMpirun, uint64_t totalSteps, uint64_t samplesPerStep) {
  prints = rank == 0;
  bar = prints && onTerminal(underMpirun);
  begin = seconds();
  total = totalSteps;
  samples = samplesPerStep;
  if (prints && !options.metricsFile.empty()) {
    metricsPath = options.metricsFile;
    ASHLAR_RETURN_IF_ERROR(openFile(metricsPath, metrics));
  }
  if (!options.logDirectory.empty()) {
    ASHLAR_RETURN_IF_ERROR(makeDirectories(options.logDirectory));
    workerPath = fmt::format("{}/worker_{}.log", options.logDirectory, rank);
    ASHLAR_RETURN_IF_ERROR(openFile(workerPath, worker));
  }
  return Status();
}

void TrainingLog::loss(uint64_t epoch, uint64_t step, double loss, uint32_t dtype, double elapsed) {
  std::string text = lossText(loss, dtype);
  line(fmt::format("epoch: {} step: {}, loss is {}", epoch, step, text));
  if (metrics != nullptr) {
    // JSON has no nan and no inf.
    fmt::print(metrics, "{{\"epoch\": {}, \"step\": {}, \"loss\": {}, \"seconds\": {:.6f}}}\n", epoch, step,
               std::isfinite(loss) ? text : "null", elapsed);
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
  if (worker != nullptr) {
    fmt::print(worker, "{}\n", text);
    std::fflush(worker);
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
  fmt::print(stderr, "\r[{:=<{}}{:{}}] {}/{} {:.0f} samples/s\033[K", "", filled, "", kBarWidth - filled, doneSteps, total, rate);
  std::fflush(stderr);
  barVisible = true;
}

void TrainingLog::clearBar() {
  if (barVisible) {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
    barVisible = false;
  }
}

Status TrainingLog::close() {
  clearBar();
  bar = false;
  Status status = outputError == 0 ? Status() : unavailable("cannot write all of standard output: {}", std::strerror(outputError));
  status.update(closeFile(metricsPath, metrics));
  status.update(closeFile(workerPath, worker));
  return status;
}

} // namespace ashlar::rt

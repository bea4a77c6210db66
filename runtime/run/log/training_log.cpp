// SPDX-License-Identifier: Apache-2.0
//
// See training_log.h.

#include "runtime/run/log/training_log.h"

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/clock.h"
#include "runtime/base/directories.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr int kBarWidth = 30;
constexpr double kBarSeconds = 0.1;

// Whether the reader of standard error sits at a terminal. mpirun gives its children a pipe there and passes on what they write, so under
// a launcher it is the launcher's own standard error that counts.
bool onTerminal(bool hasLauncher) {
  if (isatty(STDERR_FILENO)) {
    return true;
  }
  if (!hasLauncher) {
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

// Returns the number for JSON, which has no nan and no inf.
std::string jsonNumber(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

// Whether a line of --metrics is of a step up to `last`; of that one only the step itself, where this run evaluates it again.
bool isUpTo(uint64_t last, bool evaluatesAgain, std::string_view line) {
  constexpr std::string_view kKey = "\"global_step\": ";
  const size_t at = line.find(kKey);
  uint64_t step = 0;
  return at != std::string_view::npos &&
         std::from_chars(line.data() + at + kKey.size(), line.data() + line.size(), step).ec == std::errc() && step <= last &&
         !(evaluatesAgain && step == last && line.find("\"eval_loss\"") != std::string_view::npos);
}

// "12.3 ms": three digits, and a unit in which they have at most three before the point.
std::string timeText(double seconds) {
  const auto [factor, unit] = seconds < 1e-3 ? std::pair(1e6, "us") : seconds < 1 ? std::pair(1e3, "ms") : std::pair(1.0, "s");
  return fmt::format("{:.3g} {}", seconds * factor, unit);
}

// A rate: whole numbers from 100 on, else three digits.
std::string rateText(double rate) {
  return rate < 100 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate);
}

// Rates of a step, for each form of the log. Absent ones are 0.
struct Rates {
  Rates(const LoggedStep &step, const StepWork &work) {
    const double seconds = std::max(step.stepSeconds, 1e-9);
    samples = work.samples / seconds;
    tokens = work.tokens / seconds;
    gflop = 1e-9 * work.operations / seconds;
    peakShare = work.peakSeconds / seconds;
  }

  double samples, tokens, gflop, peakShare;
};

} // namespace

std::string lossText(double loss, uint32_t dtype) {
  return dtype == ASHLAR_RT_F64 ? fmt::format("{}", loss) : fmt::format("{}", static_cast<float>(loss));
}

std::string stepText(const LoggedStep &step, const StepWork &work) {
  const Rates rates(step, work);
  std::string text =
      fmt::format("epoch: {} step: {}, loss is {}, lr {:.4g}", step.epoch, step.step, lossText(step.loss, step.dtype), step.learningRate);
  if (step.gradientNorm) {
    text += fmt::format(", gradient norm {:.4g}", *step.gradientNorm);
  }
  text += fmt::format("; {} a step, {} samples/s", timeText(step.stepSeconds), rateText(rates.samples));
  if (rates.tokens > 0) {
    text += fmt::format(", {} tokens/s", rateText(rates.tokens));
  }
  if (rates.peakShare > 0) {
    text += fmt::format(", {:.3g} % of peak", 100 * rates.peakShare);
  } else if (rates.gflop > 0) {
    text += fmt::format(", {} GFLOP/s", rateText(rates.gflop));
  }
  return text;
}

std::string stepJson(const LoggedStep &step, const StepWork &work) {
  const Rates rates(step, work);
  std::string text = fmt::format(R"({{"epoch": {}, "step": {}, "loss": {}, "seconds": {:.6f}, "global_step": {}, "learning_rate": {})",
                                 step.epoch, step.step, std::isfinite(step.loss) ? lossText(step.loss, step.dtype) : "null", step.elapsed,
                                 step.number, jsonNumber(step.learningRate));
  if (step.gradientNorm) {
    text += fmt::format(R"(, "gradient_norm": {})", jsonNumber(*step.gradientNorm));
  }
  text += fmt::format(R"(, "step_seconds": {:.6g}, "samples_per_second": {:.6g})", step.stepSeconds, rates.samples);
  if (rates.tokens > 0) {
    text += fmt::format(R"(, "tokens_per_second": {:.6g})", rates.tokens);
  }
  if (rates.gflop > 0) {
    text += fmt::format(R"(, "gflop_per_second": {:.6g})", rates.gflop);
  }
  if (rates.peakShare > 0) {
    text += fmt::format(R"(, "share_of_peak": {:.6g})", rates.peakShare);
  }
  return text + "}";
}

std::string durationText(double seconds) {
  const auto all = static_cast<uint64_t>(std::min(std::max(seconds, 0.0), 1e12) + 0.5);
  const std::string rest = fmt::format("{:02}", all % 60);
  return all < 3600 ? fmt::format("{}:{}", all / 60, rest) : fmt::format("{}:{:02}:{}", all / 3600, all / 60 % 60, rest);
}

Status TrainingLog::open(const Options &options, const LogFacts &given) {
  facts = given;
  prints = facts.rank == 0;
  bar = prints && onTerminal(facts.hasLauncher);
  begin = seconds();
  if (prints && !options.metricsFile.empty()) {
    const bool evaluatesAgain = options.evaluate && facts.firstStep == facts.totalSteps;
    const OutputFile::Keeps keeps = [&](std::string_view line) { return isUpTo(facts.firstStep, evaluatesAgain, line); };
    ASHLAR_RETURN_IF_ERROR(metrics.createLog(options.metricsFile, facts.resumes ? keeps : nullptr));
  }
  if (prints && !options.eventDirectory.empty()) {
    ASHLAR_RETURN_IF_ERROR(events.open(options.eventDirectory, facts.resumes ? std::optional(facts.firstStep + 1) : std::nullopt));
  }
  if (!options.logDirectory.empty()) {
    ASHLAR_RETURN_IF_ERROR(makeDirectories(options.logDirectory));
    const OutputFile::Keeps keeps = [](std::string_view) { return true; };
    ASHLAR_RETURN_IF_ERROR(worker.createLog(workerLog(options.logDirectory, facts.rank), facts.resumes ? keeps : nullptr));
  }
  return Status();
}

std::string TrainingLog::workerLog(const std::string &directory, int rank) {
  return fmt::format("{}/worker_{}.log", directory, rank);
}

void TrainingLog::step(const LoggedStep &step) {
  line(stepText(step, facts.work));
  if (metrics.isOpen()) {
    append(metrics, stepJson(step, facts.work) + "\n");
  }
  if (!events.isOpen()) {
    return;
  }
  const Rates rates(step, facts.work);
  std::vector<Measured> values = {{"loss", step.loss}, {"learning_rate", step.learningRate}};
  if (step.gradientNorm) {
    values.push_back({"gradient_norm", *step.gradientNorm});
  }
  values.push_back({"step_seconds", step.stepSeconds});
  values.push_back({"samples_per_second", rates.samples});
  for (const Measured &one : {Measured{"tokens_per_second", rates.tokens}, Measured{"gflop_per_second", rates.gflop},
                              Measured{"share_of_peak", rates.peakShare}}) {
    if (one.value > 0) {
      values.push_back(one);
    }
  }
  events.add(step.number, values);
}

void TrainingLog::evaluated(uint64_t number, const Evaluated &result, const std::string &text) {
  line(text);
  if (metrics.isOpen()) {
    const std::string accuracy = result.accuracy ? fmt::format(R"(, "eval_accuracy": {})", jsonNumber(*result.accuracy)) : "";
    append(metrics, fmt::format("{{\"global_step\": {}, \"eval_loss\": {}{}}}\n", number, jsonNumber(result.loss), accuracy));
  }
  if (events.isOpen()) {
    std::vector<Measured> values = {{"eval/loss", result.loss}};
    if (result.accuracy) {
      values.push_back({"eval/accuracy", *result.accuracy});
    }
    events.add(number, values);
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
  if (now < barDue && doneSteps != facts.totalSteps) {
    return;
  }
  barDue = now + kBarSeconds;
  const uint64_t total = facts.totalSteps, done = doneSteps - facts.firstStep;
  int filled = total == 0 ? kBarWidth : static_cast<int>(doneSteps * kBarWidth / total);
  const double each = (now - begin) / static_cast<double>(std::max<uint64_t>(done, 1));
  tell(fmt::format("\r[{:=<{}}{:{}}] {}/{} {} samples/s, {} left\033[K", "", filled, "", kBarWidth - filled, doneSteps, total,
                   rateText(facts.work.samples / std::max(each, 1e-9)), durationText(each * static_cast<double>(total - doneSteps))));
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
  status.update(events.close());
  status.update(worker.close());
  return status;
}

} // namespace ashlar::rt

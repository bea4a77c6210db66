// SPDX-License-Identifier: Apache-2.0
//
// The log of a training run: log lines on standard output, a progress bar on a terminal, the same numbers as JSON lines and as events of
// TensorBoard, a log file for each rank.

#ifndef ASHLAR_RUNTIME_RUN_LOG_TRAINING_LOG_H
#define ASHLAR_RUNTIME_RUN_LOG_TRAINING_LOG_H

#include "runtime/base/output_file.h"
#include "runtime/base/status.h"
#include "runtime/run/log/event_file.h"
#include "runtime/run/log/step_work.h"
#include "runtime/run/options.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ashlar::rt {

// Returns a loss as it is printed: the shortest decimal that reads back as the same number, of the given dtype.
std::string lossText(double loss, uint32_t dtype);

// A step that is logged. epoch and step count from 1; `step` within the epoch, `number` in all, earlier runs included.
struct LoggedStep {
  uint64_t epoch = 0, step = 0, number = 0;
  double loss = 0;
  uint32_t dtype = 0; // of the loss
  double learningRate = 0;
  std::optional<double> gradientNorm;
  double elapsed = 0;     // seconds since the first step of the run
  double stepSeconds = 0; // of a step, a mean since the last line
};

// The result of an evaluation.
struct Evaluated {
  double loss = 0;
  std::optional<double> accuracy;
};

// Returns the line of a step: first the numbers of the program, behind the semicolon the ones that depend on time.
//   epoch: 1 step: 10, loss is 2.0726047, lr 0.1, gradient norm 1.02; 12.3 ms a step, 20813 samples/s, 16.7 GFLOP/s
std::string stepText(const LoggedStep &step, const StepWork &work);

// Returns the same as a line of JSON, without its end. Numbers that are infinite or NaN are null.
std::string stepJson(const LoggedStep &step, const StepWork &work);

// Returns "1:02:03" of 3723 seconds, "2:05" of 125.
std::string durationText(double seconds);

// What a log is opened with.
struct LogFacts {
  int rank = 0;
  bool hasLauncher = false;               // the parent process passes the output on
  bool resumes = false;                   // the files of earlier runs continue
  uint64_t firstStep = 0, totalSteps = 0; // done before this run; in all
  StepWork work;
};

// The outputs of one rank. Only rank 0 prints, and writes metrics and events.
class TrainingLog {
public:
  TrainingLog() = default;
  TrainingLog(const TrainingLog &) = delete;
  TrainingLog &operator=(const TrainingLog &) = delete;

  // Opens the files that the options ask for. They are there from now on, and grow line by line. A run that resumes keeps the lines of
  // earlier runs: in the metrics those up to its first step, in the log of a rank all.
  Status open(const Options &options, const LogFacts &facts);

  // Returns the file of a rank in the folder of --log-dir.
  static std::string workerLog(const std::string &directory, int rank);

  // Logs a step.
  void step(const LoggedStep &step);

  // Logs an evaluation after so many steps, whose line is `text`.
  void evaluated(uint64_t number, const Evaluated &result, const std::string &text);

  // Logs a line of text.
  void line(const std::string &text);

  // Shows the progress of the run; redraws the bar at most ten times a second. Cheap when there is no bar.
  void progress(uint64_t doneSteps) {
    if (bar) {
      drawBar(doneSteps);
    }
  }

  // Ends the bar and fails if not everything could be written.
  Status close();

private:
  void drawBar(uint64_t doneSteps);
  void clearBar();

  bool prints = false;
  bool bar = false;
  bool barVisible = false;
  int outputError = 0; // errno of the first line that standard output did not take
  double barDue = 0;
  double begin = 0;
  LogFacts facts;
  OutputFile metrics;
  EventFile events;
  OutputFile worker;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_LOG_TRAINING_LOG_H

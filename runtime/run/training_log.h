// SPDX-License-Identifier: Apache-2.0
//
// The log of a training run: log lines on standard output, a progress bar on a terminal, losses as JSON lines, a log file for each rank.

#ifndef ASHLAR_RUNTIME_RUN_TRAINING_LOG_H
#define ASHLAR_RUNTIME_RUN_TRAINING_LOG_H

#include "runtime/base/output_file.h"
#include "runtime/base/status.h"
#include "runtime/run/options.h"

#include <cstdint>
#include <string>

namespace ashlar::rt {

// Returns a loss as it is printed: the shortest decimal that reads back as the same number, of the given dtype.
std::string lossText(double loss, uint32_t dtype);

// The outputs of one rank. Only rank 0 prints and writes metrics.
class TrainingLog {
public:
  TrainingLog() = default;
  TrainingLog(const TrainingLog &) = delete;
  TrainingLog &operator=(const TrainingLog &) = delete;

  // Opens the files that the options ask for. They are there from now on, and grow line by line. `totalSteps` and `samplesPerStep` are for
  // the progress bar.
  Status open(const Options &options, int rank, bool underMpirun, uint64_t totalSteps, uint64_t samplesPerStep);

  // Returns the file of a rank in the folder of --log-dir.
  static std::string workerLog(const std::string &directory, int rank);

  // Logs the loss of a step. epoch and step count from 1; `step` within the epoch.
  void loss(uint64_t epoch, uint64_t step, double loss, uint32_t dtype, double seconds);

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
  uint64_t total = 0;
  uint64_t samples = 0;
  OutputFile metrics;
  OutputFile worker;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_TRAINING_LOG_H

// SPDX-License-Identifier: Apache-2.0
//
// The command line of a compiled program, parsed and checked once.

#ifndef ASHLAR_RUNTIME_RUN_OPTIONS_H
#define ASHLAR_RUNTIME_RUN_OPTIONS_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ashlar::rt {

// Of --resume: the newest checkpoint.
inline constexpr char kLatest[] = "latest";

// How texts are generated.
struct GenerationOptions {
  std::string prompt = "-", output = "-"; // files; "-": standard input and output
  std::optional<uint64_t> newTokens;      // for each prompt; nothing: until the context is full
  double temperature = 0, topP = 1;
  uint64_t topK = 0; // 0: all
  std::vector<int64_t> stop;
  std::string logits; // file; empty: none
  bool timing = false;
};

// The user's options. Members that only one kind of program has keep their default in the other.
struct Options {
  // Both kinds.
  int threads = 0; // 0: as many as this rank's share of the cores
  bool deterministic = false;
  bool profile = false, profileAll = false;
  bool plan = false;
  bool checkNumerics = false;
  bool graph = true; // cuda: replay captured programs
  uint64_t seed = 0;
  bool seedGiven = false; // on the command line
  std::string initFrom;   // file or checkpoint whose weights the variables start from; empty: none
  bool initPartial = false;
  std::vector<std::pair<std::string, std::string>> renames; // globs: name in that file, name in the program
  std::string traceFile;                                    // empty: no trace
  uint64_t traceFirst = 0, traceLast = 0;                   // steps, from 1 on; 0: not given

  // Training.
  std::string dataDirectory;
  int dataThreads = 0;       // that prepare batches; 0: as the target has it
  bool repeatsBatch = false; // ASHLAR_REPEAT_BATCH: every step takes the first batch
  uint64_t epochs = 0;
  std::optional<uint64_t> steps; // in all, however many epochs that takes
  uint64_t logEvery = 0;         // 0: no lines
  bool logEveryEpoch = false;    // in place of logEvery
  bool evaluate = false;
  std::string metricsFile, eventDirectory;
  std::string logDirectory;
  std::string parameterDirectory; // empty: parameters are not written
  bool savesCheckpoints = false;
  std::string checkpointDirectory;
  uint64_t saveEvery = 0, checkpointKeep = 0; // steps, 0: one at the end; checkpoints, 0: all
  uint64_t checkpointParts = 0;               // each host keeps the parts of so many hosts, its own first; 0: one folder for all
  bool syncCheckpoint = false;
  std::string resume; // a folder, or kLatest; empty: from the start
  bool resumePartial = false;
  std::string exportFile; // the trained model; empty: it is not written
  bool trains = true;     // false: only to export a checkpoint

  // Forward.
  uint64_t benchmark = 0; // runs to measure; 0: a normal run

  GenerationOptions generation;

  // Forward: name of the tensor, path of the file.
  std::vector<std::pair<std::string, std::string>> inputs;
  std::vector<std::pair<std::string, std::string>> outputs;
};

struct TargetRuntime;

// Parses the command line, which has the options of the image's target. `helpText` is not empty when --help was asked for; nothing else is
// to be done then.
Status parseOptions(const ashlar_rt_image &image, const TargetRuntime &target, int argc, const char *const *argv, Options &options,
                    std::string &helpText);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_OPTIONS_H

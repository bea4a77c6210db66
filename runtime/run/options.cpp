// SPDX-License-Identifier: Apache-2.0
//
// The options of a compiled program.

#include "runtime/run/options.h"

#include "runtime/base/host.h"
#include "runtime/base/option_parser.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/run/generate/texts.h"
#include "runtime/run/target_runtime.h"

#include <charconv>
#include <cstring>

namespace ashlar::rt {
namespace {

constexpr int kMostThreads = 1024; // of a rank

// Cuts texts such as NAME=FILE.npy, as `expected` shows them, at the first '='.
Status splitBindings(const char *option, const char *expected, const std::vector<std::string> &texts,
                     std::vector<std::pair<std::string, std::string>> &result) {
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return invalid("{} {}: expected {}", option, text, expected);
    }
    result.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return Status();
}

// Reads "A-B", or "A" for one step. Ranks compare both as one number.
Status readTraceSteps(const std::string &text, Options &options) {
  const char *const end = text.data() + text.size();
  uint32_t first = 0, last = 0;
  std::from_chars_result result = std::from_chars(text.data(), end, first);
  const bool isRange = result.ec == std::errc() && result.ptr != end && *result.ptr == '-';
  last = first;
  result = isRange ? std::from_chars(result.ptr + 1, end, last) : result;
  if (result.ec != std::errc() || result.ptr != end || first == 0 || last < first) {
    return invalid("--trace-steps {}: expected steps A-B, counted from 1, A not above B, such as 3-5", text);
  }
  options.traceFirst = first;
  options.traceLast = last;
  return Status();
}

// Checks what is said of --init-from.
Status checkInitFrom(const Options &options) {
  if (options.initFrom.empty() && (options.initPartial || !options.renames.empty())) {
    return invalid("{} without --init-from; add --init-from FILE", options.initPartial ? "--init-partial" : "--rename");
  }
  if (!options.initFrom.empty() && !options.resume.empty() && options.resume != kLatest) {
    return invalid("--init-from {} and --resume {}: a run starts from weights or goes on from a checkpoint; leave one of them out, or "
                   "resume the latest, where the weights are for a run that has none yet",
                   options.initFrom, options.resume);
  }
  for (const auto &[from, to] : options.renames) {
    if (countWildcards(to) > countWildcards(from)) {
      return invalid("--rename {}={}: the new name has {} of * and ?, the old one {}", from, to, countWildcards(to), countWildcards(from));
    }
  }
  return Status();
}

// Reads ASHLAR_REPEAT_BATCH, under which nothing is written that a later run could take for trained. `asked`: the option that asks for it.
Status readRepeatsBatch(const char *asked, Options &options) {
  options.repeatsBatch = environmentInteger("ASHLAR_REPEAT_BATCH") != 0;
  if (options.repeatsBatch && asked != nullptr) {
    return invalid("{} but ASHLAR_REPEAT_BATCH=1 trains on the first batch alone, to measure steps; leave out one of them", asked);
  }
  options.savesCheckpoints = options.savesCheckpoints && !options.repeatsBatch;
  return Status();
}

void addGeneration(OptionParser &parser, GenerationOptions &options) {
  parser.add("--prompt", options.prompt, "FILE", "token ids to go on from: a .npy file, or lines of them; - is standard input",
             options.prompt);
  parser.add("--output", options.output, "FILE", "where the new tokens go: a .npy file, or lines of them; - is standard output",
             options.output);
  parser.addCount("--new-tokens", options.newTokens, "new tokens of each text (default: until the context is full)");
  parser.addNumber("--temperature", options.temperature, "T", "divide logits by it and draw; 0 takes the most likely token",
                   fmt::format("{}", options.temperature), 0, 1e6);
  parser.addCount("--top-k", options.topK, "draw among the K most likely tokens; 0: all", std::to_string(options.topK));
  parser.addNumber("--top-p", options.topP, "P", "draw among the fewest tokens whose probabilities reach P",
                   fmt::format("{}", options.topP), 0, 1);
  parser.add("--stop", options.stop, "ID", "token that ends a text; may be repeated");
  parser.add("--logits", options.logits, "FILE.npy", "write the logits that each new token was chosen from");
  parser.addFlag("--timing", options.timing, "print tokens and time to standard error");
}

Status checkGeneration(const OptionParser &parser, const GenerationOptions &options) {
  for (const char *option : {"--top-k", "--top-p"}) {
    if (options.temperature == 0 && parser.count(option) != 0) {
      return invalid("{} without --temperature: the most likely token is taken; add --temperature 1 to draw", option);
    }
  }
  const std::string &logits = options.logits;
  if (!logits.empty() && !isNpy(logits)) {
    return invalid("--logits {}: logits go to a .npy file; name it FILE.npy", logits);
  }
  return Status();
}

// Refuses the options of a training in a run that only exports a checkpoint.
Status checkOnlyExports(const OptionParser &parser, const Options &options) {
  constexpr const char *kOfTraining[] = {"--data",        "--data-threads",   "--log-every",       "--eval",           "--metrics",
                                         "--tensorboard", "--log-dir",        "--save-parameters", "--save-every",     "--sync-checkpoint",
                                         "--trace",       "--check-numerics", "--profile",         "--checkpoint-dir", "--init-from"};
  for (const char *option : kOfTraining) {
    const bool findsCheckpoint = std::strcmp(option, "--checkpoint-dir") == 0 && options.resume == kLatest;
    if (parser.count(option) != 0 && !findsCheckpoint) {
      return invalid(
          "{} but --export with --resume alone trains nothing: it writes the model of the checkpoint; leave {} out, or add --steps "
          "or --epochs to train first",
          option, option);
    }
  }
  return Status();
}

// Reads the hosts of --checkpoint-local: "" where it is not given, "true" without a number.
Status readCheckpointParts(const std::string &text, uint64_t &parts) {
  constexpr uint64_t kMostHosts = uint64_t(1) << 20;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), parts);
  if (text.empty() || text == "true") {
    parts = text.empty() ? 0 : 1;
  } else if (fault != std::errc() || end != text.data() + text.size() || parts < 1 || parts > kMostHosts) {
    return invalid("--checkpoint-local={}: not a number of hosts from 1 to {}; give --checkpoint-local=2 for a copy on another host", text,
                   kMostHosts);
  }
  return Status();
}

void addTraining(OptionParser &parser, const ashlar_rt_training &training, Options &options, uint64_t &steps,
                 std::string &checkpointLocal) {
  options.epochs = training.epochs;
  options.logEvery = training.log_every;
  options.saveEvery = training.checkpoint_every;
  options.checkpointKeep = training.checkpoint_keep;
  parser.add("--data", options.dataDirectory, "DIR", "directory of the data set");
  parser.addCount("--data-threads", options.dataThreads, "threads that prepare batches (default: 1, or with a GPU its share of the cores)",
                  1, kMostThreads);
  parser.addCount("--epochs", options.epochs, "passes over the data", std::to_string(options.epochs));
  parser.addCount("--steps", steps, "stop after so many steps in all");
  parser.addCount("--log-every", options.logEvery, "steps between two log lines, 0 for none",
                  options.logEvery == 0 ? "an epoch" : std::to_string(options.logEvery));
  parser.addFlag("--eval", options.evaluate, "evaluate on the evaluation split at the end");
  parser.add("--metrics", options.metricsFile, "FILE.jsonl", "write the numbers of the log as JSON lines");
  parser.add("--tensorboard", options.eventDirectory, "DIR", "write the numbers of the log as a file of events for TensorBoard");
  parser.add("--log-dir", options.logDirectory, "DIR", "folder of the log of each rank, worker_<rank>.log");
  parser.add("--save-parameters", options.parameterDirectory, "DIR",
             "write the parameters and running statistics to this folder, one .npy file each");
  parser.add("--checkpoint-dir", options.checkpointDirectory, "DIR", "write checkpoints to this folder");
  parser.addCount("--save-every", options.saveEvery, "steps between two checkpoints, 0 for one at the end",
                  std::to_string(options.saveEvery));
  parser.addFlag("--checkpoint-local", checkpointLocal,
                 "keep on each host's own disk what its ranks need to go on; =2: also what the ranks of the host before it need");
  parser.addFlag("--sync-checkpoint", options.syncCheckpoint, "wait until each checkpoint is on disk");
  parser.add("--resume", options.resume, "DIR|latest", "go on from this checkpoint, or the newest one in --checkpoint-dir");
  parser.add("--export", options.exportFile, "FILE.onnx",
             "write the model with the trained parameters; with --resume and neither --steps nor --epochs without training");
  parser.addFlag("--resume-partial", options.resumePartial, "load only matching tensors of the checkpoint, and list the rest");
}

} // namespace

Status parseOptions(const ashlar_rt_image &image, const TargetRuntime &target, int argc, const char *const *argv, Options &options,
                    std::string &helpText) {
  const ashlar_rt_training *training = image.training;
  std::string what = training != nullptr ? "Trains " : image.generation != nullptr ? "Generates text with " : "Runs ";
  OptionParser parser(what + image.model_name + ", compiled by Ashlar for " + image.target + ".");
  options.seed = image.seed;
  std::string checkpointLocal, profile, traceSteps;
  std::vector<std::string> inputs, outputs, renames;
  uint64_t steps = 0;
  bool noGraph = false;
  if (training != nullptr) {
    addTraining(parser, *training, options, steps, checkpointLocal);
  } else if (image.generation != nullptr) {
    addGeneration(parser, options.generation);
  } else {
    parser.add("--input", inputs, "NAME=FILE.npy", "an input and its file, one option each");
    parser.add("--output", outputs, "NAME=FILE.npy", "an output and its file (default: all, as NAME.npy)");
    parser.addCount("--benchmark", options.benchmark, "run so many times and print the median time (default inputs: random)", "", 1,
                    1000000);
  }
  parser.add("--init-from", options.initFrom, "F.safetensors|F.onnx|DIR", "start from the weights in this file, or in this checkpoint");
  parser.add("--rename", renames, "FROM=TO", "rename its tensors matching FROM to TO; wildcards carry over; first match wins");
  parser.addFlag("--init-partial", options.initPartial, "load only its matching tensors, and list the rest");
  parser.addCount("--seed", options.seed, "seed of all random numbers", std::to_string(options.seed));
  parser.addFlag("--deterministic", options.deterministic, "give the same bits on every number of ranks");
  if (target.hasGraphs) {
    parser.addFlag("--no-graph", noGraph, "launch every instruction separately instead of replaying a captured graph");
  }
  if (target.hasThreads) {
    parser.addCount("--threads", options.threads, "threads of each rank (default: its share of the cores)", 1, kMostThreads);
  }
  parser.addFlag("--check-numerics", options.checkNumerics, "stop at the first instruction that makes a NaN, and name it; slow");
  parser.addFlag("--profile", profile, "print a profile of the time by kind, module and instruction; =all: every line");
  parser.add("--trace", options.traceFile, "FILE.json", "write a trace of some steps, for ui.perfetto.dev");
  parser.add("--trace-steps", traceSteps, "A-B", "the steps of --trace (default: 3-5, or the last three)");
  parser.addFlag("--plan", options.plan, "print the plan of the program, and end");
  bool asksForHelp = false;
  ASHLAR_RETURN_IF_ERROR(parser.parse(argc, argv, asksForHelp));
  if (asksForHelp) {
    helpText = parser.help(argv[0]);
    return Status();
  }
  if (!profile.empty() && profile != "true" && profile != "all") {
    return invalid("--profile: {} not in {{true,all}}; --help lists the options", profile);
  }
  if (!traceSteps.empty() && options.traceFile.empty()) {
    return invalid("--trace-steps {} without --trace; add --trace FILE.json", traceSteps);
  }
  if (!traceSteps.empty()) {
    ASHLAR_RETURN_IF_ERROR(readTraceSteps(traceSteps, options));
  }
  options.seedGiven = parser.count("--seed") != 0;
  if (training != nullptr) {
    const bool givesSaveEvery = parser.count("--save-every") != 0;
    options.savesCheckpoints = training->saves_checkpoints != 0 || !options.checkpointDirectory.empty() || givesSaveEvery;
    if (options.syncCheckpoint && !options.savesCheckpoints) {
      return invalid("--sync-checkpoint but no checkpoint is written; add --checkpoint-dir DIR");
    }
    ASHLAR_RETURN_IF_ERROR(readCheckpointParts(checkpointLocal, options.checkpointParts));
    if (options.checkpointParts != 0 && !options.savesCheckpoints && options.resume.empty()) {
      return invalid("--checkpoint-local but no checkpoint is written or read; add --checkpoint-dir DIR");
    }
    if (options.resumePartial && options.resume.empty()) {
      return invalid("--resume-partial without --resume; add --resume DIR");
    }
    ASHLAR_RETURN_IF_ERROR(readRepeatsBatch(!options.checkpointDirectory.empty()  ? "--checkpoint-dir"
                                            : givesSaveEvery                      ? "--save-every"
                                            : !options.exportFile.empty()         ? "--export"
                                            : !options.parameterDirectory.empty() ? "--save-parameters"
                                                                                  : nullptr,
                                            options));
    options.trains = options.exportFile.empty() || options.resume.empty() || parser.count("--epochs") != 0 || parser.count("--steps") != 0;
    ASHLAR_RETURN_IF_ERROR(options.trains ? Status() : checkOnlyExports(parser, options));
    if (options.checkpointDirectory.empty()) {
      options.checkpointDirectory = ".";
    }
  }
  options.graph = !noGraph;
  options.profile = !profile.empty();
  options.profileAll = profile == "all";
  options.logEveryEpoch = training != nullptr && training->log_every == 0 && parser.count("--log-every") == 0;
  if (parser.count("--steps") != 0) {
    options.steps = steps;
    // --steps alone goes on as long as it takes.
    if (parser.count("--epochs") == 0) {
      options.epochs = UINT64_MAX;
    }
  }
  ASHLAR_RETURN_IF_ERROR(image.generation != nullptr ? checkGeneration(parser, options.generation) : Status());
  ASHLAR_RETURN_IF_ERROR(splitBindings("--input", "NAME=FILE.npy", inputs, options.inputs));
  ASHLAR_RETURN_IF_ERROR(splitBindings("--output", "NAME=FILE.npy", outputs, options.outputs));
  ASHLAR_RETURN_IF_ERROR(splitBindings("--rename", "FROM=TO", renames, options.renames));
  ASHLAR_RETURN_IF_ERROR(checkInitFrom(options));
  if (options.benchmark != 0 && !options.outputs.empty()) {
    return invalid("--benchmark writes no outputs; leave out --output");
  }
  return Status();
}

} // namespace ashlar::rt

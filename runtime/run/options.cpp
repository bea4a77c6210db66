// SPDX-License-Identifier: Apache-2.0
//
// The command line of a compiled program. CLI11 throws; nothing leaves this file but a status.

#include "runtime/run/options.h"

#include "runtime/abi/command_line.h"
#include "runtime/base/host.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/run/generate/texts.h"
#include "runtime/run/target_runtime.h"

#include <CLI/CLI.hpp>

#include <charconv>

namespace ashlar::rt {
namespace {

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

// Checks a count. CLI11's own check lets a number that is too large pass, and spells out the largest double for one that is negative.
std::string checkCount(const std::string &text) {
  uint64_t value = 0;
  const char *end = text.data() + text.size();
  std::from_chars_result result = std::from_chars(text.data(), end, value);
  bool isCount = result.ec == std::errc() && result.ptr == end;
  return isCount ? "" : fmt::format("{} is not a whole number from 0 to {}", text, UINT64_MAX);
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
  options.repeatsBatch = environmentInteger("ASHLAR_REPEAT_BATCH", 0) != 0;
  if (options.repeatsBatch && asked != nullptr) {
    return invalid("{} but ASHLAR_REPEAT_BATCH=1 trains on the first batch alone, to measure steps; leave out one of them", asked);
  }
  options.savesCheckpoints = options.savesCheckpoints && !options.repeatsBatch;
  return Status();
}

// Checks a number of a range. CLI11's own check lets a NaN pass.
CLI::Validator checkNumber(double least, double most) {
  return CLI::Validator(
      [=](std::string &text) {
        double value = 0;
        const char *end = text.data() + text.size();
        std::from_chars_result result = std::from_chars(text.data(), end, value);
        const bool isInside = result.ec == std::errc() && result.ptr == end && value >= least && value <= most;
        return isInside ? std::string() : fmt::format("{} is not a number from {} to {}", text, least, most);
      },
      "");
}

void addGeneration(CLI::App &app, GenerationOptions &options) {
  app.add_option("--prompt", options.prompt, "token ids to go on from: a .npy file, or lines of them; - is standard input")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--output", options.output, "where the new tokens go: a .npy file, or lines of them; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--new-tokens", options.newTokens, "new tokens of each text (default: until the context is full)")
      ->type_name("N")
      ->check(checkCount);
  app.add_option("--temperature", options.temperature, "divide logits by it and draw; 0 takes the most likely token")
      ->type_name("T")
      ->check(checkNumber(0, 1e6))
      ->capture_default_str();
  app.add_option("--top-k", options.topK, "draw among the K most likely tokens; 0: all")
      ->type_name("K")
      ->check(checkCount)
      ->capture_default_str();
  app.add_option("--top-p", options.topP, "draw among the fewest tokens whose probabilities reach P")
      ->type_name("P")
      ->check(checkNumber(0, 1))
      ->capture_default_str();
  app.add_option("--stop", options.stop, "token that ends a text; may be repeated")->type_name("ID");
  app.add_option("--logits", options.logits, "write the logits that each new token was chosen from")->type_name("FILE.npy");
  app.add_flag("--timing", options.timing, "print tokens and time to standard error");
}

Status checkGeneration(const CLI::App &app, const GenerationOptions &options) {
  for (const char *option : {"--top-k", "--top-p"}) {
    if (options.temperature == 0 && app.get_option(option)->count() != 0) {
      return invalid("{} without --temperature: the most likely token is taken; add --temperature 1 to draw", option);
    }
  }
  const std::string &logits = options.logits;
  if (!logits.empty() && !isNpy(logits)) {
    return invalid("--logits {}: logits go to a .npy file; name it FILE.npy", logits);
  }
  if (!logits.empty() && logits == options.output) {
    return invalid("--output {} and --logits {} are one file; name two", options.output, logits);
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

} // namespace

Status parseOptions(const ashlar_rt_image &image, const TargetRuntime &target, int argc, const char *const *argv, Options &options,
                    std::string &helpText) {
  const ashlar_rt_training *training = image.training;
  std::string what = training != nullptr ? "Trains " : image.generation != nullptr ? "Generates text with " : "Runs ";
  CLI::App app(what + image.model_name + ", compiled by Ashlar for " + image.target + ".");
  options.seed = image.seed;
  uint64_t steps = 0;
  std::string checkpointLocal;
  std::vector<std::string> inputs, outputs, renames;
  CLI::Option *stepsOption = nullptr;
  if (training != nullptr) {
    options.epochs = training->epochs;
    options.logEvery = training->log_every;
    options.saveEvery = training->checkpoint_every;
    options.checkpointKeep = training->checkpoint_keep;
    app.add_option("--data", options.dataDirectory, "directory of the data set")->type_name("DIR");
    app.add_option("--data-threads", options.dataThreads, "threads that prepare batches (default: 1, or with a GPU its share of the cores)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024));
    app.add_option("--epochs", options.epochs, "passes over the data")->type_name("N")->check(checkCount)->capture_default_str();
    stepsOption = app.add_option("--steps", steps, "stop after so many steps in all")->type_name("N")->check(checkCount);
    app.add_option("--log-every", options.logEvery, "steps between two log lines, 0 for none")
        ->type_name("N")
        ->check(checkCount)
        ->default_str(options.logEvery == 0 ? "an epoch" : std::to_string(options.logEvery));
    app.add_flag("--eval", options.evaluate, "evaluate on the evaluation split at the end");
    app.add_option("--metrics", options.metricsFile, "write the logged losses as JSON lines")->type_name("FILE.jsonl");
    app.add_option("--log-dir", options.logDirectory, "folder of the log of each rank, worker_<rank>.log")->type_name("DIR");
    app.add_option("--save-parameters", options.parameterDirectory,
                   "write the parameters and running statistics to this folder, one .npy file each")
        ->type_name("DIR");
    app.add_option("--checkpoint-dir", options.checkpointDirectory, "write checkpoints to this folder")->type_name("DIR");
    app.add_option("--save-every", options.saveEvery, "steps between two checkpoints, 0 for one at the end")
        ->type_name("N")
        ->check(checkCount)
        ->capture_default_str();
    app.add_flag("--checkpoint-local", checkpointLocal,
                 "keep on each host's own disk what its ranks need to go on; =2: also what the ranks of the host before it need");
    app.add_flag("--sync-checkpoint", options.syncCheckpoint, "wait until each checkpoint is on disk");
    app.add_option("--resume", options.resume, "go on from this checkpoint, or the newest one in --checkpoint-dir")
        ->type_name("DIR|latest");
    app.add_option("--export", options.exportFile,
                   "write the model with the trained parameters; with --resume and neither --steps nor --epochs without training")
        ->type_name("FILE.onnx");
    app.add_flag("--resume-partial", options.resumePartial, "load only matching tensors of the checkpoint, and list the rest");
  } else if (image.generation != nullptr) {
    addGeneration(app, options.generation);
  } else {
    app.add_option("--input", inputs, "an input and its file, one option each")->type_name("NAME=FILE.npy");
    app.add_option("--output", outputs, "an output and its file (default: all, as NAME.npy)")->type_name("NAME=FILE.npy");
    app.add_option("--benchmark", options.benchmark, "run so many times and print the median time (default inputs: random)")
        ->type_name("N")
        ->check(CLI::Range(uint64_t{1}, uint64_t{1000000}));
  }
  app.add_option("--init-from", options.initFrom, "start from the weights in this file, or in this checkpoint")
      ->type_name("F.safetensors|F.onnx|DIR");
  app.add_option("--rename", renames, "rename its tensors matching FROM to TO; wildcards carry over; first match wins")
      ->type_name("FROM=TO");
  app.add_flag("--init-partial", options.initPartial, "load only its matching tensors, and list the rest");
  app.add_option("--seed", options.seed, "seed of all random numbers")->type_name("N")->check(checkCount)->capture_default_str();
  app.add_flag("--deterministic", options.deterministic, "give the same bits on every number of ranks");
  bool noGraph = false;
  if (target.hasGraphs) {
    app.add_flag("--no-graph", noGraph, "launch every instruction separately instead of replaying a captured graph");
  }
  if (target.hasThreads) {
    app.add_option("--threads", options.threads, "threads of each rank (default: its share of the cores)")
        ->type_name("N")
        ->check(CLI::Range(1, 1024));
  }
  app.add_flag("--check-numerics", options.checkNumerics, "stop at the first instruction that makes a NaN, and name it; slow");
  std::string profile;
  app.add_flag("--profile", profile, "print a profile of the time by kind, module and instruction; =all: every line")
      ->check(CLI::IsMember({"true", "all"}));
  std::string traceSteps;
  app.add_option("--trace", options.traceFile, "write a trace of some steps, for ui.perfetto.dev")->type_name("FILE.json");
  app.add_option("--trace-steps", traceSteps, "the steps of --trace (default: 3-5, or the last three)")->type_name("A-B");
  app.add_flag("--plan", options.plan, "print the plan of the program, and end");
  try {
    parseCommandLine(app, argc, argv);
  } catch (const CLI::CallForHelp &) {
    helpText = app.help();
    return Status();
  } catch (const CLI::ParseError &error) {
    return invalid("{}", commandLineFault(error));
  }
  if (!traceSteps.empty() && options.traceFile.empty()) {
    return invalid("--trace-steps {} without --trace; add --trace FILE.json", traceSteps);
  }
  if (!traceSteps.empty()) {
    ASHLAR_RETURN_IF_ERROR(readTraceSteps(traceSteps, options));
  }
  options.seedGiven = app.get_option("--seed")->count() != 0;
  if (training != nullptr) {
    const bool givesSaveEvery = app.get_option("--save-every")->count() != 0;
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
    options.trains =
        options.exportFile.empty() || options.resume.empty() || app.get_option("--epochs")->count() != 0 || stepsOption->count() != 0;
    if (options.checkpointDirectory.empty()) {
      options.checkpointDirectory = ".";
    }
  }
  options.graph = !noGraph;
  options.profile = !profile.empty();
  options.profileAll = profile == "all";
  options.logEveryEpoch = training != nullptr && training->log_every == 0 && app.get_option("--log-every")->count() == 0;
  if (stepsOption != nullptr && stepsOption->count() != 0) {
    options.steps = steps;
    // --steps alone goes on as long as it takes.
    if (app.get_option("--epochs")->count() == 0) {
      options.epochs = UINT64_MAX;
    }
  }
  ASHLAR_RETURN_IF_ERROR(image.generation != nullptr ? checkGeneration(app, options.generation) : Status());
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

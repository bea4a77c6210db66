// SPDX-License-Identifier: Apache-2.0
//
// Generation of texts (docs/generate.md). Rank 0 reads the prompts, chooses the tokens, and sends commands to all ranks.

#include "runtime/data/element.h"
#include "runtime/data/formats/npy.h"
#include "runtime/run/checkpoint/loader.h"
#include "runtime/run/checkpoint/output_tensors.h"
#include "runtime/run/checkpoint/shard.h"
#include "runtime/run/generate/sampler.h"
#include "runtime/run/generate/texts.h"
#include "runtime/run/run_files.h"
#include "runtime/run/tracer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

namespace ashlar::rt {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Generation {
public:
  explicit Generation(Session &session)
      : session(session), variant(*session.variant), options(session.options->generation), loader(session),
        sampler({options.temperature, options.topK, options.topP, session.options->seed}) {}

  // Finds the programs, and on rank 0 reads the prompts.
  Status prepare() {
    prefill = session.executor->find(ASHLAR_RT_PREFILL);
    decode = session.executor->find(ASHLAR_RT_DECODE);
    if (prefill == nullptr || decode == nullptr || prefill->source.num_inputs != 2 || decode->source.num_inputs != 2 ||
        decode->source.num_outputs != 1) {
      return internal("the image has no programs that generate text");
    }
    logits = &variant.tensors[decode->source.outputs[0]];
    batch = tokensOf(*prefill).global_shape[0];
    chunk = tokensOf(*prefill).global_shape[1];
    context = session.image->generation->context;
    if (session.recorder != nullptr) {
      tracer.emplace(session);
      const auto index = static_cast<uint32_t>(&decode->source - variant.programs);
      ASHLAR_RETURN_IF_ERROR(tracer->prepare(/*firstStep=*/0, UINT32_MAX, /*microBatches=*/1, {{{index, 0, 0}}}));
    }
    if (session.communicator->rank() != 0) {
      return Status();
    }
    ASHLAR_RETURN_IF_ERROR(readPrompts(options.prompt, context, logits->global_shape[2], texts));
    for (int64_t stop : options.stop) {
      if (stop < 0 || stop >= logits->global_shape[2]) {
        return invalid("--stop {}, but the vocabulary has {} tokens", stop, logits->global_shape[2]);
      }
    }
    for (size_t i = 0; i < texts.size() && options.newTokens; ++i) {
      const uint64_t length = texts[i].prompt.size();
      if (*options.newTokens > static_cast<uint64_t>(context) - length) {
        return invalid("--new-tokens {} behind prompt {} of {} tokens, but the model has {} positions; ask for at most {}",
                       *options.newTokens, i + 1, length, context, static_cast<uint64_t>(context) - length);
      }
    }
    if (!options.logits.empty()) {
      ASHLAR_RETURN_IF_ERROR(checkOutput(options.logits));
    }
    return writer.open(options.output, /*streams=*/texts.size() == 1);
  }

  // Looks into the file that the variables start from; checks that no output takes the place of another file; gives the variables their
  // values. Ranks agree on all three.
  Status findWeights() {
    ASHLAR_RETURN_IF_ERROR(loader.open());
    return session.communicator->agree(loader.checkTensors());
  }
  Status checkRoles() const {
    FileRoles files = filesOf(session, loader, {}, "");
    if (session.communicator->rank() == 0) {
      files.addInput("the file of --prompt", options.prompt);
      files.addOutput("--output", options.output);
      files.addOutput("--logits", options.logits);
    }
    return session.communicator->agree(checkFiles(files));
  }
  Status load() {
    ASHLAR_RETURN_IF_ERROR(initialise(session));
    ASHLAR_RETURN_IF_ERROR(session.communicator->agree(loader.load()));
    for (const std::string &line : loader.lines()) {
      if (session.communicator->rank() == 0) {
        fmt::print(stderr, "{}\n", line); // standard output is for tokens
      }
    }
    return tracer ? session.communicator->agree(tracer->open()) : Status();
  }

  // Generates all texts, a batch of them at a time. Every rank returns when rank 0 is through, or has failed.
  Status run() {
    if (session.communicator->rank() != 0) {
      return follow();
    }
    Status status;
    for (size_t first = 0; first < texts.size() && status.ok(); first += static_cast<size_t>(batch)) {
      status = generate(first, std::min(texts.size() - first, static_cast<size_t>(batch)));
    }
    status.update(lead({kEnd, 0, {}}));
    return status;
  }

  Status finish() {
    if (session.communicator->rank() == 0 && options.timing) {
      fmt::print(stderr, "prompts: {} tokens in {:.3f} s; generation: {} tokens in {:.3f} s, {:.1f} tokens/s\n", promptTokens,
                 promptSeconds, newTokens, newSeconds, newTokens == 0 ? 0 : static_cast<double>(newTokens) / newSeconds);
    }
    if (session.communicator->rank() != 0) {
      return Status();
    }
    if (!options.logits.empty()) {
      const int64_t vocabulary = logits->global_shape[2];
      std::vector<float> all; // in the order of the texts
      for (const Text &text : texts) {
        all.insert(all.end(), text.logits.begin(), text.logits.end());
      }
      ASHLAR_RETURN_IF_ERROR(
          writeNpy(options.logits, ASHLAR_RT_F32, {static_cast<int64_t>(all.size()) / vocabulary, vocabulary}, all.data()));
    }
    return writer.finish(texts);
  }

  // Returns whether the trace was written.
  Status close() {
    if (tracer && steps < tracer->lastStep()) {
      return invalid("--trace: {} positions were computed one by one, and step {} is traced; ask for steps up to that by --trace-steps",
                     steps, tracer->lastStep());
    }
    return tracer ? tracer->close() : Status();
  }

private:
  enum Kind : int64_t { kEnd, kPrefill, kAdvance, kDecode };

  // A command of rank 0: run a program on these tokens, (batch, its positions), from `position` on. kAdvance: decode, but nobody asks
  // for the logits.
  struct Command {
    Kind kind;
    int64_t position;
    std::vector<int64_t> tokens;
  };

  const ashlar_rt_tensor &tokensOf(const Program &program) const { return variant.tensors[program.source.inputs[0]]; }

  // Generates texts [first, first + count).
  Status generate(size_t first, size_t count) {
    const Clock::time_point begin = Clock::now();
    std::vector<bool> isOpen;
    int64_t shortest = context;
    for (size_t i = first; i < first + count; ++i) {
      shortest = std::min(shortest, static_cast<int64_t>(texts[i].prompt.size()));
      isOpen.push_back(wantsMore(texts[i]));
      if (!isOpen.back()) {
        writer.end();
      }
      promptTokens += texts[i].prompt.size();
    }
    int64_t position = 0;
    ASHLAR_RETURN_IF_ERROR(fill(first, count, shortest - 1, position));
    promptSeconds += secondsSince(begin);
    const Clock::time_point begun = Clock::now();
    for (; std::find(isOpen.begin(), isOpen.end(), true) != isOpen.end(); ++position) {
      ASHLAR_RETURN_IF_ERROR(step(first, count, position, isOpen));
    }
    newSeconds += secondsSince(begun);
    return Status();
  }

  bool wantsMore(const Text &text) const {
    return text.generated.size() < options.newTokens.value_or(static_cast<uint64_t>(context) - text.prompt.size());
  }

  // Token number `position` of a text, 0 where it has none yet.
  static int64_t tokenOf(const Text &text, int64_t position) {
    const auto place = static_cast<size_t>(position), length = text.prompt.size();
    if (place < length) {
      return text.prompt[place];
    }
    return place - length < text.generated.size() ? text.generated[place - length] : 0;
  }

  // The tokens of texts [first, first + count) from `position` on; other rows of the batch repeat the first text.
  std::vector<int64_t> tokensAt(size_t first, size_t count, int64_t position, int64_t width) const {
    std::vector<int64_t> tokens;
    for (int64_t row = 0; row < batch; ++row) {
      const Text &text = texts[first + (static_cast<size_t>(row) < count ? static_cast<size_t>(row) : 0)];
      for (int64_t i = 0; i < width; ++i) {
        tokens.push_back(tokenOf(text, position + i));
      }
    }
    return tokens;
  }

  // Computes the keys and values of the first `count` positions by prefill, but for a rest that decode is faster with. Positions that it
  // computes beyond those are computed again before they are read.
  Status fill(size_t first, size_t count, int64_t positions, int64_t &position) {
    const int64_t least = std::max<int64_t>(2, chunk / 8); // decode reads all weights for each token, prefill multiplies whole chunks
    while (positions - position >= std::min(least, chunk)) {
      const int64_t start = std::min(position, context - chunk);
      ASHLAR_RETURN_IF_ERROR(lead({kPrefill, start, tokensAt(first, count, start, chunk)}));
      position = std::min(positions, start + chunk);
    }
    return Status();
  }

  // Runs one position, and chooses the next token of each open text whose prompt ends there or before.
  Status step(size_t first, size_t count, int64_t position, std::vector<bool> &isOpen) {
    auto chooses = [&](size_t i) { return isOpen[i] && static_cast<size_t>(position) + 1 >= texts[first + i].prompt.size(); };
    bool asks = false;
    for (size_t i = 0; i < count; ++i) {
      asks = asks || chooses(i);
    }
    ASHLAR_RETURN_IF_ERROR(lead({asks ? kDecode : kAdvance, position, tokensAt(first, count, position, 1)}));
    const auto vocabulary = static_cast<size_t>(logits->global_shape[2]);
    for (size_t i = 0; i < count; ++i) {
      if (!chooses(i)) {
        continue;
      }
      Text &text = texts[first + i];
      int64_t token = 0;
      ASHLAR_RETURN_IF_ERROR(sampler.choose(values.data() + i * vocabulary, vocabulary, first + i, static_cast<uint64_t>(position), token));
      ++newTokens;
      if (!options.logits.empty()) {
        const float *row = values.data() + i * vocabulary;
        text.logits.insert(text.logits.end(), row, row + vocabulary);
      }
      text.generated.push_back(token);
      writer.add(token);
      isOpen[i] = wantsMore(text) && std::find(options.stop.begin(), options.stop.end(), token) == options.stop.end();
      if (!isOpen[i]) {
        writer.end();
      }
    }
    return Status();
  }

  // Sends a command to all ranks, and performs it.
  Status lead(Command command) {
    ASHLAR_RETURN_IF_ERROR(share(command));
    return command.kind == kEnd ? Status() : perform(command);
  }

  // Performs the commands of rank 0, up to the last one.
  Status follow() {
    while (true) {
      Command command{kEnd, 0, {}};
      ASHLAR_RETURN_IF_ERROR(share(command));
      if (command.kind == kEnd) {
        return Status();
      }
      ASHLAR_RETURN_IF_ERROR(perform(command));
    }
  }

  // Gives every rank the command of rank 0.
  Status share(Command &command) {
    if (session.communicator->processes() == 1) {
      return Status();
    }
    std::vector<int64_t> numbers{command.kind, command.position};
    numbers.insert(numbers.end(), command.tokens.begin(), command.tokens.end());
    const int64_t most = 2 + batch * chunk;
    numbers.resize(static_cast<size_t>(most));
    constexpr int64_t kPart = kLargestGather / sizeof(int64_t);
    // A command to decode is one message: no rank knows before it how many tokens there are.
    int64_t sent = 0, needed = std::min(most, kPart);
    while (sent < needed) {
      const auto size = static_cast<size_t>(std::min(kPart, needed - sent));
      std::vector<int64_t> all(size * static_cast<size_t>(session.communicator->processes()));
      ASHLAR_RETURN_IF_ERROR(session.communicator->allGather(numbers.data() + sent, size * sizeof(int64_t), all.data()));
      std::copy_n(all.begin(), size, numbers.begin() + sent);
      sent += static_cast<int64_t>(size);
      needed = std::max(sent, 2 + widthOf(static_cast<Kind>(numbers[0])) * batch);
    }
    command.kind = static_cast<Kind>(numbers[0]);
    command.position = numbers[1];
    command.tokens.assign(numbers.begin() + 2, numbers.begin() + 2 + widthOf(command.kind) * batch);
    return Status();
  }

  // Positions of a command.
  int64_t widthOf(Kind kind) const { return kind == kEnd ? 0 : kind == kPrefill ? chunk : 1; }

  Status perform(const Command &command) {
    Program &program = command.kind == kPrefill ? *prefill : *decode;
    if (command.position < 0 || command.position + widthOf(command.kind) > context) {
      return internal("positions from {} on, {} of them, of a model with {}", command.position, widthOf(command.kind), context);
    }
    ASHLAR_RETURN_IF_ERROR(write(tokensOf(program), command.tokens.data(), command.tokens.size()));
    ASHLAR_RETURN_IF_ERROR(write(variant.tensors[program.source.inputs[1]], &command.position, 1));
    std::string line;
    const bool isTraced = tracer && command.kind != kPrefill;
    ASHLAR_RETURN_IF_ERROR(isTraced ? tracer->beginStep(steps) : Status());
    ASHLAR_RETURN_IF_ERROR(session.executor->run(program, isTraced ? steps : 0)); // a step has one micro-batch
    ASHLAR_RETURN_IF_ERROR(isTraced ? tracer->endStep(steps++, line) : Status());
    if (!line.empty()) {
      fmt::print(stderr, "{}\n", line);
    }
    return command.kind == kDecode ? readLogits() : Status();
  }

  // Writes integers to an input.
  Status write(const ashlar_rt_tensor &tensor, const int64_t *numbers, size_t count) {
    Communicator &seat = *session.communicator;
    bytes.resize(count * dtypeBytes(tensor.buffer.dtype));
    convertElements(ASHLAR_RT_I64, reinterpret_cast<const char *>(numbers), tensor.buffer.dtype, bytes.data(), count, /*scale=*/1,
                    /*shift=*/0);
    for (int device = 0; device < seat.mesh().devicesPerProcess(); ++device) {
      auto fill = [&](char *local) {
        copyShard(ShardCopy::kGlobalToLocal, tensor, variant, static_cast<uint32_t>(seat.firstDevice() + device), bytes.data(), local);
      };
      ASHLAR_RETURN_IF_ERROR(session.executor->write(tensor, device, fill));
    }
    return Status();
  }

  // Brings the logits to rank 0, as f32.
  Status readLogits() {
    ASHLAR_RETURN_IF_ERROR(session.communicator->barrier());
    ASHLAR_RETURN_IF_ERROR(fetchGlobal(session, *logits, variant.stage, bytes));
    if (session.communicator->rank() == 0) {
      values.resize(bytes.size() / dtypeBytes(logits->buffer.dtype));
      convertElements(logits->buffer.dtype, bytes.data(), ASHLAR_RT_F32, reinterpret_cast<char *>(values.data()), values.size(),
                      /*scale=*/1,
                      /*shift=*/0);
    }
    return Status();
  }

  Session &session;
  const ashlar_rt_variant &variant;
  const GenerationOptions &options;
  Loader loader;
  Sampler sampler;
  TextWriter writer;
  std::optional<Tracer> tracer; // only with --trace: of the positions that are computed one by one
  Program *prefill = nullptr, *decode = nullptr;
  const ashlar_rt_tensor *logits = nullptr;
  int64_t batch = 0, chunk = 0, context = 0;
  std::vector<Text> texts; // on rank 0
  std::vector<char> bytes; // of an input, or of the logits
  std::vector<float> values;
  uint64_t steps = 0, promptTokens = 0, newTokens = 0;
  double promptSeconds = 0, newSeconds = 0;
};

} // namespace

Status generateText(Session &session) {
  Generation generation(session);
  Status prepared = generation.prepare();
  if (prepared.ok()) {
    prepared = session.executor->checkMemory(/*batchBytes=*/0);
  }
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(prepared));
  ASHLAR_RETURN_IF_ERROR(generation.findWeights());
  ASHLAR_RETURN_IF_ERROR(generation.checkRoles());
  ASHLAR_RETURN_IF_ERROR(generation.load());
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(generation.run()));
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(generation.finish()));
  return generation.close();
}

} // namespace ashlar::rt

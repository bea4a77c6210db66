// SPDX-License-Identifier: Apache-2.0
//
// See order_file.h. An action is looked at when it is read, and its place when all of its stage are known.

#include "passes/stage/order_file.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

namespace ashlar::stage {
namespace {

constexpr llvm::StringLiteral kLetters = "FBW"; // of the phases

std::string print(const Action &action, const Cut &cut) {
  std::string text = kLetters[static_cast<size_t>(action.phase)] + std::to_string(action.microBatch);
  return cut.chunks == 1 ? text : text + "." + std::to_string(action.chunk);
}

// Returns what an action takes that the same stage makes of the same micro-batch.
std::vector<Action> neededBy(const Action &action, const Cut &cut) {
  std::vector<Action> needed;
  if (action.phase == StepPhase::Forward && action.chunk > 0) {
    needed.push_back({StepPhase::Forward, action.microBatch, action.chunk - 1});
  }
  if (action.phase != StepPhase::Forward) {
    needed.push_back({StepPhase::Forward, action.microBatch, action.chunk});
  }
  if (action.phase == StepPhase::Backward && action.chunk + 1 < cut.chunks) {
    needed.push_back({StepPhase::Backward, action.microBatch, action.chunk + 1});
  }
  if (action.phase == StepPhase::Weights) {
    needed.push_back({StepPhase::Backward, action.microBatch, action.chunk});
  }
  return needed;
}

} // namespace

std::string OrderFile::textOf(const Action &action) const {
  return print(action, cut);
}

llvm::Error OrderFile::errorAt(int64_t at, const llvm::Twine &message) const {
  return llvm::createStringError(name + (at == 0 ? "" : ":" + std::to_string(at)) + ": " + message);
}

llvm::Expected<OrderFile> OrderFile::parse(llvm::StringRef text, llvm::StringRef name, const Cut &cut, int64_t microBatches) {
  OrderFile file(name, cut, microBatches);
  file.heads.assign(cut.stages, 0);
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    ++file.line;
    if (llvm::Error error = file.readLine(line.split('#').first.trim())) {
      return std::move(error);
    }
  }
  for (int64_t stage = 0; stage < cut.stages; ++stage) {
    if (file.heads[stage] == 0) {
      return file.errorAt(0, llvm::formatv("has no line for stage {0} of {1}; add \"stage {0}:\" and its actions", stage, cut.stages));
    }
    if (llvm::Error error = file.checkSequence(stage)) {
      return std::move(error);
    }
  }
  return file;
}

// A line begins a stage, or goes on with the one before.
llvm::Error OrderFile::readLine(llvm::StringRef text) {
  if (text.consume_front("stage")) {
    if (llvm::Error error = readHead(text)) {
      return error;
    }
  }
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(text, words);
  for (llvm::StringRef word : words) {
    if (llvm::Error error = readAction(word)) {
      return error;
    }
  }
  return llvm::Error::success();
}

// Reads " 1:" and takes it off the line.
llvm::Error OrderFile::readHead(llvm::StringRef &text) {
  auto [number, rest] = text.split(':');
  int64_t found = 0;
  if (number.size() == text.size() || number.trim().getAsInteger(10, found)) {
    return errorAt(line, "\"stage" + text.take_front(20) + "\" does not name its stage; write for instance \"stage 0: F0 B0\"");
  }
  if (found < 0 || found >= cut.stages) {
    return errorAt(line,
                   llvm::formatv("stage {0}, but pipeline.stages is {1}; the last one is stage {2}", found, cut.stages, cut.stages - 1));
  }
  if (heads[found] != 0) {
    return errorAt(line, llvm::formatv("stage {0} begins again, after line {1}; write its order once", found, heads[found]));
  }
  stage = found;
  heads[found] = line;
  text = rest;
  return llvm::Error::success();
}

llvm::Error OrderFile::readAction(llvm::StringRef text) {
  auto [head, chunk] = text.split('.');
  const size_t letter = kLetters.find(text.front());
  Action action{StepPhase::Forward, 0, 0};
  const bool hasChunk = head.size() != text.size();
  if (letter == llvm::StringRef::npos || head.drop_front().getAsInteger(10, action.microBatch) ||
      (hasChunk && chunk.getAsInteger(10, action.chunk)) || action.microBatch < 0 || action.chunk < 0) {
    return errorAt(line, "\"" + text.take_front(20) +
                             "\" is no action; one is F, B or W (forward, backward, weights) and a micro-batch, F0, and where stages "
                             "have several chunks a point and the chunk, F0.1");
  }
  action.phase = static_cast<StepPhase>(letter);
  if (!stage) {
    return errorAt(line, "\"" + text + "\" stands before the first stage; begin with \"stage 0:\"");
  }
  if (action.microBatch >= microBatches) {
    return errorAt(line, llvm::formatv("{0} names micro-batch {1}, but pipeline.micro_batches is {2}; the last one is micro-batch {3}",
                                       text, action.microBatch, microBatches, microBatches - 1));
  }
  if (action.chunk >= cut.chunks) {
    return errorAt(line, llvm::formatv("{0} names chunk {1}, but pipeline.chunks is {2}; the last one is chunk {3}", text, action.chunk,
                                       cut.chunks, cut.chunks - 1));
  }
  hasWeights |= action.phase == StepPhase::Weights;
  orders[*stage].push_back(action);
  lines[*stage].push_back(line);
  return llvm::Error::success();
}

llvm::Error OrderFile::checkSequence(int64_t at) const {
  std::map<std::pair<Part, int64_t>, size_t> places;
  std::map<Part, Action> last;
  for (auto [place, action] : llvm::enumerate(orders[at])) {
    if (!places.try_emplace({action.part(), action.microBatch}, place).second) {
      return errorAt(lines[at][place], llvm::formatv("{0} of stage {1} a second time; a stage does it once", textOf(action), at));
    }
    auto [before, isFirst] = last.try_emplace(action.part(), action);
    if (before->second.microBatch > action.microBatch) {
      return errorAt(lines[at][place], llvm::formatv("{0} of stage {1} stands after {2}; let its micro-batches come in turn",
                                                     textOf(action), at, textOf(before->second)));
    }
    before->second = action;
  }
  for (auto [place, action] : llvm::enumerate(orders[at])) {
    for (const Action &needed : neededBy(action, cut)) {
      auto found = places.find({needed.part(), needed.microBatch});
      if (found != places.end() && found->second > place) {
        return errorAt(lines[at][place], llvm::formatv("{0} of stage {1} stands before {2}, which makes its input; exchange them",
                                                       textOf(action), at, textOf(needed)));
      }
    }
  }
  return llvm::Error::success();
}

llvm::Error OrderFile::checkComplete(llvm::ArrayRef<std::set<Part>> programs) const {
  for (int64_t at = 0; at < cut.stages; ++at) {
    std::set<std::pair<Part, int64_t>> given;
    for (const Action &action : orders[at]) {
      given.insert({action.part(), action.microBatch});
    }
    for (const Part &part : programs[at]) {
      for (int64_t microBatch = 0; microBatch < microBatches; ++microBatch) {
        if (given.count({part, microBatch}) == 0) {
          return errorAt(heads[at], llvm::formatv("stage {0} has no {1}; it runs {2} of each of the {3} micro-batches", at,
                                                  textOf({part.phase, microBatch, part.chunk}),
                                                  cut.programName(nameOf(part.phase), part.chunk), microBatches));
        }
      }
    }
  }
  return llvm::Error::success();
}

std::string printOrders(const StageOrders &orders, const Cut &cut) {
  std::string text;
  for (auto [stage, order] : llvm::enumerate(orders)) {
    text += llvm::formatv("stage {0}:", stage);
    for (const Action &action : order) {
      text += " " + print(action, cut);
    }
    text += "\n";
  }
  return text;
}

} // namespace ashlar::stage

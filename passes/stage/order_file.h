// SPDX-License-Identifier: Apache-2.0
//
// The order of a user's own, as a file has it (docs/pipeline.md). No IR.
//
//   # two micro-batches on two stages
//   stage 0: F0 F1 B0 B1
//   stage 1: F0 B0 F1 B1

#ifndef ASHLAR_PASSES_STAGE_ORDER_FILE_H
#define ASHLAR_PASSES_STAGE_ORDER_FILE_H

#include "passes/stage/schedule.h"

#include "llvm/Support/Error.h"

#include <set>

namespace ashlar::stage {

// The content of a file.
class OrderFile {
public:
  // Reads the text of a file; `name` stands for it in errors, which are one line each and open with it and the number of the line. Refuses
  // entries that are no action, actions that the cut or the step does not have, that occur twice, that stand before their inputs on their
  // stage, or that are out of turn: a program takes one micro-batch after the other.
  static llvm::Expected<OrderFile> parse(llvm::StringRef text, llvm::StringRef name, const Cut &cut, int64_t microBatches);

  const StageOrders &getOrders() const { return orders; }

  // Whether the backward pass is in two phases.
  bool splitsBackward() const { return hasWeights; }

  // Fails unless each stage runs its programs for all micro-batches. `programs`: by stage.
  llvm::Error checkComplete(llvm::ArrayRef<std::set<Part>> programs) const;

private:
  OrderFile(llvm::StringRef name, const Cut &cut, int64_t microBatches)
      : name(name), cut(cut), microBatches(microBatches), orders(cut.stages), lines(cut.stages) {}

  llvm::Error readLine(llvm::StringRef line);
  llvm::Error readHead(llvm::StringRef &line);
  llvm::Error readAction(llvm::StringRef text);
  llvm::Error checkSequence(int64_t stage) const;

  // Returns "F3" or, where stages have several chunks, "F3.1".
  std::string textOf(const Action &action) const;
  llvm::Error errorAt(int64_t at, const llvm::Twine &message) const;

  std::string name;
  Cut cut;
  int64_t microBatches;
  StageOrders orders;
  std::vector<std::vector<int64_t>> lines; // by stage: where each action stands
  std::vector<int64_t> heads;              // by stage: the line that begins it; 0: none
  int64_t line = 0;                        // that is being read
  std::optional<int64_t> stage;            // that is being read
  bool hasWeights = false;
};

// Writes orders as a file has them.
std::string printOrders(const StageOrders &orders, const Cut &cut);

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_ORDER_FILE_H

// SPDX-License-Identifier: Apache-2.0
//
// The subcommands of ashlar-ckpt, one function each. They print to standard output; a failure is returned.

#ifndef ASHLAR_TOOLS_ASHLAR_CKPT_COMMANDS_H
#define ASHLAR_TOOLS_ASHLAR_CKPT_COMMANDS_H

#include "runtime/base/status.h"
#include "runtime/checkpoint/reader.h"

#include <string>
#include <vector>

namespace ashlar::ckpt {

// Elements of a tensor that are in memory at a time.
constexpr int64_t kPartElements = int64_t{1} << 20;

// Prints a line. Control characters, which names of tensors may hold, become '?'.
void printLine(std::string line);

// Returns "[512x784]".
std::string shapeText(const std::vector<int64_t> &shape);

// Reads a part of a tensor.
rt::Status readPart(rt::CheckpointReader &reader, const rt::CheckpointTensor &tensor, const std::vector<int64_t> &start,
                    const std::vector<int64_t> &size, std::vector<char> &array);

// Prints a table of the checkpoints in a directory, the newest first.
rt::Status list(const std::string &directory);

// Prints the contents of a checkpoint; `pieces`: with their places.
rt::Status show(const std::string &checkpoint, bool pieces);

// Reads all of some checkpoints and prints a line for each damaged range. `isDamaged`: there is one.
rt::Status verify(const std::vector<std::string> &checkpoints, bool &isDamaged);

// Prints how two checkpoints differ. `differ`: they do.
rt::Status diff(const std::string &first, const std::string &second, bool &differ);

// Writes the tensors of a checkpoint to one safetensors file; `parametersOnly`: without the optimizer's state and counters.
rt::Status convert(const std::string &checkpoint, const std::string &output, bool parametersOnly);

} // namespace ashlar::ckpt

#endif // ASHLAR_TOOLS_ASHLAR_CKPT_COMMANDS_H

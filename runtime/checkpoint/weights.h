// SPDX-License-Identifier: Apache-2.0
//
// Files of weights that other tools wrote, listed as the index of a checkpoint lists its own: whole tensors, without checksums.

#ifndef ASHLAR_RUNTIME_CHECKPOINT_WEIGHTS_H
#define ASHLAR_RUNTIME_CHECKPOINT_WEIGHTS_H

#include "runtime/checkpoint/index.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ashlar::rt {

// Lists the tensors of a file, by the end of its name: .onnx the initializers of a model, .json the files of an index of Hugging Face
// (model.safetensors.index.json), any other is safetensors. Files of the index are named relative to the folder of `path`. Data are not
// read.
Status listWeights(const std::string &path, CheckpointIndex &index);

// Lists the initializers of the graph of an ONNX model, whose bytes are file 0 of the index; files of external data come behind it.
Status listInitializers(std::string_view model, const std::string &path, CheckpointIndex &index);

// Sorts the tensors by name, and refuses two of one name.
Status sortTensors(CheckpointIndex &index, const std::string &path);

// Pairs of globs, FROM and TO. The first whose FROM matches the whole name of a tensor renames it: the n-th wildcard of TO is replaced by
// the match of the n-th `*` or `?` of FROM, as short as possible from the left. Example: h.*.attn.*=layers.*.*.
using RenameRules = std::vector<std::pair<std::string, std::string>>;

// Returns the number of `*` and `?` in a glob.
size_t countWildcards(std::string_view glob);

// Returns whether the glob matches the whole text, and the matches of its wildcards. O(glob * text).
bool matchGlob(std::string_view glob, std::string_view text, std::vector<std::string_view> &parts);

// Renames the tensors of the index. Refuses a rule that matches none, and tensors that get one name. Assumes that no TO has more wildcards
// than its FROM.
Status renameTensors(const RenameRules &rules, CheckpointIndex &index, const std::string &path);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_WEIGHTS_H

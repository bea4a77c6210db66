// SPDX-License-Identifier: Apache-2.0
//
// The content of a checkpoint, and the ranks that write it.

#ifndef ASHLAR_RUNTIME_RUN_CHECKPOINT_SAVED_PIECES_H
#define ASHLAR_RUNTIME_RUN_CHECKPOINT_SAVED_PIECES_H

#include "runtime/base/piece.h"
#include "runtime/comm/collective.h"
#include "runtime/comm/mesh.h"

#include <vector>

namespace ashlar::rt {

// Whether a tensor lasts from step to step.
bool isSaved(const ashlar_rt_tensor &tensor);

// Returns the tensors that all stages together save, each once: copies on several stages are equal. `stage` is the first to have it.
struct SavedTensor {
  const ashlar_rt_tensor *tensor;
  uint32_t stage;
};
std::vector<SavedTensor> savedTensors(const ashlar_rt_variant &variant);

// A piece that a rank writes.
struct SavedPiece {
  const ashlar_rt_tensor *tensor;
  int device;  // of the mesh, that holds it
  int process; // of the device: the rank that writes it, or hands it to that one
  Piece piece;
  uint64_t bytes; // without padding
};

// Returns the pieces that the devices [first, first + count) of the variant's stage write. Among the devices with the same piece of the
// n-th tensor, number n modulo their number writes it, so that all of them write; all devices of all stages together write each byte once.
std::vector<SavedPiece> savedPieces(const ashlar_rt_variant &variant, const Mesh &mesh, int first, int count);

// Returns the pieces that a rank writes where each host keeps its part: all that devices of the host hold, each once. Those with the same
// piece take turns as above, the ranks of all stages on the host counted. Of `parts` hosts in all, itself and the ones before it, counted
// around, a host also keeps the pieces that it does not hold: the rank that writes such a piece on its own host hands it to its keeper.
// `variant` is of any stage.
std::vector<SavedPiece> hostPieces(const ashlar_rt_variant &variant, const Place &seat, uint64_t parts, int process);

// Returns the ranks that keep copies of the pieces that `process` writes, one on each of the `parts` - 1 hosts behind its own.
std::vector<int> keepersOf(const Place &seat, uint64_t parts, int process);

// Copies a piece without its padding. `local` holds the device's buffer.
void packPiece(const SavedPiece &saved, const char *local, char *to);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_CHECKPOINT_SAVED_PIECES_H

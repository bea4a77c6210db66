// SPDX-License-Identifier: Apache-2.0

#include "runtime/run/checkpoint/saved_pieces.h"

#include "runtime/base/dtype.h"
#include "runtime/base/stages.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

namespace ashlar::rt {

namespace {

// Whether the device writes its piece of the tensor, the `number`-th of all.
bool writes(const ashlar_rt_tensor &tensor, const Mesh &mesh, const ashlar_rt_variant &variant, int device, size_t number) {
  if (tensor.owner != 0) {
    return tensor.owner == static_cast<uint32_t>(device) + 1;
  }
  std::vector<bool> splits(variant.num_axes, false);
  for (uint32_t dim = 0; dim < tensor.rank; ++dim) {
    for (uint32_t i = 0; i < tensor.splits[dim].num_axes; ++i) {
      splits[tensor.splits[dim].axes[i]] = true;
    }
  }
  const std::vector<int64_t> at = mesh.coordinates(device);
  int64_t copy = 0, copies = 1; // which of those that hold the same piece
  for (uint32_t axis = 0; axis < variant.num_axes; ++axis) {
    if (!splits[axis]) {
      copy = copy * variant.axes[axis].size + at[axis];
      copies *= variant.axes[axis].size;
    }
  }
  return static_cast<int64_t>(number % static_cast<size_t>(copies)) == copy;
}

uint64_t bytesOf(const ashlar_rt_tensor &tensor, const Piece &piece) {
  uint64_t bytes = dtypeBytes(tensor.buffer.dtype);
  for (uint32_t dim = 0; dim < tensor.rank; ++dim) {
    bytes *= static_cast<uint64_t>(piece.size[dim]);
  }
  return bytes;
}

// A piece, once for each device that holds it.
using Holders = std::vector<SavedPiece>;

// The distinct pieces of a tensor on a host.
std::vector<Holders> holdersOnHost(const ashlar_rt_variant &variant, const Place &seat, int host, const char *name) {
  std::vector<Holders> groups;
  for (const ashlar_rt_variant &stage : Stages(variant)) {
    const ashlar_rt_tensor *tensor = findTensor(stage, name);
    const Mesh mesh(stage);
    for (int device = 0; tensor != nullptr && device < mesh.devices(); ++device) {
      const int process = mesh.processOf(device);
      const bool isHolder = tensor->owner == 0 || tensor->owner == static_cast<uint32_t>(device) + 1;
      if (!isHolder || seat.hostOfProcess[static_cast<size_t>(process)] != host) {
        continue;
      }
      const Piece piece = pieceOf(stage, *tensor, static_cast<uint32_t>(device));
      const uint64_t bytes = bytesOf(*tensor, piece);
      if (bytes == 0) { // padding, or the tensor is empty
        continue;
      }
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Holders &each) { return each[0].piece == piece; });
      group = group == groups.end() ? groups.emplace(groups.end()) : group;
      group->push_back({tensor, device, process, piece, bytes});
    }
  }
  return groups;
}

} // namespace

bool isSaved(const ashlar_rt_tensor &tensor) {
  return tensor.persistent != 0 && (tensor.role == ASHLAR_RT_VARIABLE || tensor.role == ASHLAR_RT_STATE);
}

std::vector<SavedTensor> savedTensors(const ashlar_rt_variant &variant) {
  std::vector<SavedTensor> found;
  std::set<std::string> names;
  for (const ashlar_rt_variant &stage : Stages(variant)) {
    for (uint32_t i = 0; i < stage.num_tensors; ++i) {
      if (isSaved(stage.tensors[i]) && names.insert(stage.tensors[i].name).second) {
        found.push_back({&stage.tensors[i], stage.stage});
      }
    }
  }
  return found;
}

std::vector<SavedPiece> savedPieces(const ashlar_rt_variant &variant, const Mesh &mesh, int first, int count) {
  std::vector<SavedPiece> pieces;
  const std::vector<SavedTensor> tensors = savedTensors(variant);
  for (size_t number = 0; number < tensors.size(); ++number) {
    const ashlar_rt_tensor &tensor = *tensors[number].tensor;
    for (int device = first; tensors[number].stage == variant.stage && device < first + count; ++device) {
      if (!writes(tensor, mesh, variant, device, number)) {
        continue;
      }
      const Piece piece = pieceOf(variant, tensor, static_cast<uint32_t>(device));
      if (const uint64_t bytes = bytesOf(tensor, piece); bytes != 0) { // else the piece is padding, or the tensor empty
        pieces.push_back({&tensor, device, mesh.processOf(device), piece, bytes});
      }
    }
  }
  return pieces;
}

std::vector<SavedPiece> hostPieces(const ashlar_rt_variant &variant, const Place &seat, uint64_t parts, int process) {
  std::vector<SavedPiece> pieces;
  const std::vector<SavedTensor> tensors = savedTensors(variant);
  const int self = seat.hostOfProcess[static_cast<size_t>(process)], hosts = seat.hosts();
  for (size_t number = 0; number < tensors.size(); ++number) {
    std::vector<Piece> kept; // on this host, by any of its ranks
    for (int distance = 0; distance < static_cast<int>(parts); ++distance) {
      const int host = (self + hosts - distance) % hosts;
      for (const Holders &holders : holdersOnHost(variant, seat, host, tensors[number].tensor->name)) {
        if (std::find(kept.begin(), kept.end(), holders[0].piece) != kept.end()) {
          continue;
        }
        kept.push_back(holders[0].piece);
        const SavedPiece &piece = holders[number % holders.size()];
        if (seat.rankOnHost(self, seat.indexOnHost(piece.process)) == process) {
          pieces.push_back(piece);
        }
      }
    }
  }
  return pieces;
}

std::vector<int> keepersOf(const Place &seat, uint64_t parts, int process) {
  std::vector<int> keepers;
  const int self = seat.hostOfProcess[static_cast<size_t>(process)];
  for (int distance = 1; distance < static_cast<int>(parts); ++distance) {
    keepers.push_back(seat.rankOnHost((self + distance) % seat.hosts(), seat.indexOnHost(process)));
  }
  return keepers;
}

void packPiece(const SavedPiece &saved, const char *local, char *to) {
  const size_t element = dtypeBytes(saved.tensor->buffer.dtype);
  forEachRun(*saved.tensor, saved.piece, /*firstDim=*/0, [&](int64_t, int64_t inLocal, int64_t count) {
    std::memcpy(to, local + inLocal * element, count * element);
    to += count * element;
  });
}

} // namespace ashlar::rt

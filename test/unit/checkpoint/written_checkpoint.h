// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints that the tests write, cut at random.

#ifndef ASHLAR_TEST_UNIT_CHECKPOINT_WRITTEN_CHECKPOINT_H
#define ASHLAR_TEST_UNIT_CHECKPOINT_WRITTEN_CHECKPOINT_H

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/safetensors.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace ashlar::test {

// A tensor and its elements, row by row.
struct WholeTensor {
  std::string name;
  uint32_t dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

inline WholeTensor randomTensor(const std::string &name, uint32_t dtype, const std::vector<int64_t> &shape, uint32_t seed) {
  std::mt19937 random(seed);
  WholeTensor tensor = {name, dtype, shape, std::string(rt::countElements(shape) * rt::dtypeBytes(dtype), '\0')};
  for (char &byte : tensor.bytes) {
    byte = static_cast<char>(random());
  }
  return tensor;
}

// Cuts a range in two at a random place, again and again, until no random number wants more.
inline void cut(std::vector<rt::CheckpointPiece> &pieces, rt::CheckpointPiece piece, std::mt19937 &random) {
  const size_t dim = piece.size.empty() ? 0 : random() % piece.size.size();
  if (piece.size.empty() || piece.size[dim] < 2 || random() % 4 == 0) {
    pieces.push_back(piece);
    return;
  }
  rt::CheckpointPiece rest = piece;
  piece.size[dim] = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(piece.size[dim] - 1));
  rest.start[dim] += piece.size[dim];
  rest.size[dim] -= piece.size[dim];
  cut(pieces, piece, random);
  cut(pieces, rest, random);
}

// The elements of a piece, by a plain loop over the tensor's elements.
inline std::string bytesOfPiece(const WholeTensor &tensor, const std::vector<int64_t> &start, const std::vector<int64_t> &size) {
  const size_t element = rt::dtypeBytes(tensor.dtype);
  std::string bytes;
  for (size_t i = 0; i < tensor.bytes.size() / element; ++i) {
    size_t rest = i;
    bool isInside = true;
    for (size_t dim = tensor.shape.size(); dim-- > 0;) {
      const auto at = static_cast<int64_t>(rest % static_cast<size_t>(tensor.shape[dim]));
      rest /= static_cast<size_t>(tensor.shape[dim]);
      isInside = isInside && at >= start[dim] && at < start[dim] + size[dim];
    }
    bytes += isInside ? tensor.bytes.substr(i * element, element) : "";
  }
  return bytes;
}

// Writes the tensors, cut at random, to `ranks` files in the folder, and returns their index, which is not written.
inline rt::CheckpointIndex writeRankFiles(const std::string &folder, const std::vector<WholeTensor> &tensors, uint32_t ranks,
                                          uint32_t seed) {
  std::mt19937 random(seed);
  rt::CheckpointIndex index;
  index.model = "net";
  index.target = "cpu";
  index.mesh = "dp=" + std::to_string(ranks);
  index.ranks = ranks;
  index.epoch = 2;
  index.step = 3;
  index.stepsDone = 13;
  index.samplesAStep = 32;
  index.samples = 320;
  index.seed = UINT64_MAX;
  std::vector<std::vector<rt::StoredTensor>> stored(ranks);
  std::vector<std::string> data(ranks);
  for (const WholeTensor &tensor : tensors) {
    rt::CheckpointTensor entry;
    entry.name = tensor.name;
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    rt::CheckpointPiece whole;
    whole.start.resize(tensor.shape.size());
    whole.size = tensor.shape;
    if (!tensor.bytes.empty()) {
      cut(entry.pieces, whole, random);
    }
    for (rt::CheckpointPiece &piece : entry.pieces) {
      piece.file = static_cast<uint32_t>(random() % ranks);
      const std::string bytes = bytesOfPiece(tensor, piece.start, piece.size);
      piece.offset = data[piece.file].size(); // behind the header, which is known at the end
      piece.checksums = rt::checksumsOf(bytes.data(), bytes.size());
      stored[piece.file].push_back(
          {rt::pieceName(tensor.name, tensor.shape, piece.start, piece.size), tensor.dtype, piece.size, piece.offset, bytes.size()});
      data[piece.file] += bytes;
    }
    index.tensors.push_back(entry);
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const std::string header = rt::writeSafetensorsHeader(stored[rank], {}), name = rt::CheckpointFolder::rankFile(rank);
    std::ofstream(folder + "/" + name, std::ios::binary) << header << data[rank];
    index.files.push_back({name, header.size() + data[rank].size()});
    for (rt::CheckpointTensor &entry : index.tensors) {
      for (rt::CheckpointPiece &piece : entry.pieces) {
        piece.offset += piece.file == rank ? header.size() : 0;
      }
    }
  }
  return index;
}

// The same, with the index.
inline rt::CheckpointIndex writeCheckpoint(const std::string &folder, const std::vector<WholeTensor> &tensors, uint32_t ranks,
                                           uint32_t seed) {
  std::filesystem::create_directories(folder);
  rt::CheckpointIndex index = writeRankFiles(folder, tensors, ranks, seed);
  std::ofstream(folder + "/" + rt::kIndexFile) << rt::writeIndex(index);
  return index;
}

// Inverts a byte of a file.
inline void flipByte(const std::string &path, uint64_t place) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(place));
  const char byte = static_cast<char>(~file.get());
  file.seekp(static_cast<std::streamoff>(place));
  file.put(byte);
}

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_CHECKPOINT_WRITTEN_CHECKPOINT_H

// SPDX-License-Identifier: Apache-2.0
//
// index.json: the contents of a checkpoint, and their places (docs/checkpoints.md).

#ifndef ASHLAR_RUNTIME_CHECKPOINT_INDEX_H
#define ASHLAR_RUNTIME_CHECKPOINT_INDEX_H

#include "runtime/base/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::rt {

inline constexpr char kIndexFile[] = "index.json";

// A dense piece of a global tensor in a file.
struct CheckpointPiece {
  uint32_t file = 0;                // of the index's files
  uint64_t offset = 0;              // from the beginning of the file
  std::vector<int64_t> start, size; // in each dim
  std::vector<uint64_t> checksums;  // none in files that other tools wrote
};

struct CheckpointTensor {
  std::string name;
  uint32_t dtype = 0;  // ashlar_rt_dtype
  std::string stateOf; // of an optimizer's state: the parameter
  std::vector<int64_t> shape;
  std::vector<CheckpointPiece> pieces; // they make up the tensor
  std::string unreadable;              // why its numbers cannot be taken, of a file of another tool; "" where they can

  // Bytes of all of it.
  uint64_t bytes() const;

  // Whether it is a parameter or a running statistic: no state of an optimizer, and no counter of the program.
  bool isParameter() const;

  // Whether it is the seed or the number of the step, which the index has itself. Earlier versions wrote them as tensors, too.
  bool isPosition() const;
};

struct CheckpointFile {
  std::string name;
  uint64_t bytes = 0;
};

struct CheckpointIndex {
  // Where it comes from; nobody compares it.
  std::string model, target, mesh;
  uint64_t ranks = 0;
  // Of --checkpoint-local: the host whose ranks' pieces it has, counted from 0, and how many there are; 0 hosts: it has all pieces.
  // `parts`: of so many hosts, this one and the ones before it, counted around.
  uint64_t host = 0, hosts = 0, parts = 1;
  // Of the checkpoints in a folder the one written last has the largest; 0: it was written before there were numbers.
  uint64_t number = 0;
  // The last step done and its epoch, from 1 on.
  uint64_t epoch = 0, step = 0;
  // Position in the data.
  uint64_t stepsDone = 0, samplesAStep = 0, samples = 0;
  uint64_t seed = 0;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors; // by name

  // Returns the tensor of that name; null when there is none.
  const CheckpointTensor *find(const std::string &name) const;
};

// Returns the piece that is all of a tensor, without checksums.
CheckpointPiece wholePiece(uint32_t file, uint64_t offset, const std::vector<int64_t> &shape);

// Returns the number of elements of a shape or of a piece.
uint64_t countElements(const std::vector<int64_t> &shape);

// Returns the name that a rank file has for a piece: "fc1.weight" of a whole tensor, else "fc1.weight[0:128,0:784]".
std::string pieceName(const std::string &tensor, const std::vector<int64_t> &shape, const std::vector<int64_t> &start,
                      const std::vector<int64_t> &size);

// Returns the text of the index, with its checksum.
std::string writeIndex(const CheckpointIndex &index);

// Reads no more of the index of the checkpoint in `folder` than its number. Returns false where there is no index.
bool readNumber(const std::string &folder, uint64_t &number);

// Reads the index of the checkpoint in `folder`, and checks everything except the tensors' bytes: its checksum, that pieces lie in their
// files and, unless it is the part of a host, make up their tensors, and that the files have their old lengths.
Status readIndex(const std::string &folder, CheckpointIndex &index);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_INDEX_H

// SPDX-License-Identifier: Apache-2.0
//
// Reads tensors from a checkpoint, however they were cut, or from files of weights of other tools: the one way in which they get into
// memory. Files are mapped, so that only requested parts are read; each 64 KiB with a checksum is verified before its first use.

#ifndef ASHLAR_RUNTIME_CHECKPOINT_READER_H
#define ASHLAR_RUNTIME_CHECKPOINT_READER_H

#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/box.h"
#include "runtime/checkpoint/weights.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ashlar::rt {

// Used by one thread.
class CheckpointReader {
public:
  // Reads the index of the checkpoint in the folder.
  Status open(const std::string &folder);

  // Lists the weights in a file of another tool, or the parameters of the checkpoint in a folder, under the names that the rules give them.
  Status openWeights(const std::string &fileOrFolder, const RenameRules &rules);

  // Returns the folder, without slashes at its end, or the file of weights, and its contents. Assumes that it was opened.
  const std::string &folder() const { return path; }
  const CheckpointIndex &index() const { return contents; }

  // Returns the paths of all files of it. Assumes that it was opened.
  std::vector<std::string> paths() const;

  // Copies the part of `wanted` in a tensor of the index to its array. Fails where the index is the part of a host and lacks some of it.
  // Assumes that the rank is the tensor's.
  Status read(const CheckpointTensor &tensor, const Box &wanted, char *array);

  // Calls use(from, to, count) for each part of `wanted` in a tensor of the index: `count` elements, from element `to` of its array on.
  // `from` need not be aligned. Assumes that the rank is the tensor's.
  using Use = std::function<void(const char *from, int64_t to, int64_t count)>;
  Status read(const CheckpointTensor &tensor, const Box &wanted, const Use &use);

  // Calls look(file) for each file.
  Status forEachFile(const std::function<void(const MappedFile &file)> &look);

  // Verifies all pieces, and the headers of the files against the index. Returns a line for each range of a file with changed bytes, and
  // for each unreadable file.
  std::vector<std::string> verify();

  // Fails when a file that was read from has changed since. The data read is then invalid.
  Status check() const;

  // Forgets the files. The index stays.
  void close();

  // Bytes that read() gave, and bytes that were verified for it or by verify().
  uint64_t bytesCopied() const { return copied; }
  uint64_t bytesVerified() const { return verified; }

private:
  struct File {
    MappedFile mapped;
    bool isOpen = false;
  };

  Status readPieces(const CheckpointTensor &tensor, const Box &wanted, const Use &use);
  // Where a file lies.
  std::string placeOf(uint32_t number) const { return prefix + contents.files[number].name; }
  // The file of a number; opens it the first time.
  Status openFile(uint32_t number, const MappedFile *&mapped);
  // Verifies the bytes [begin, end) of a piece, with the bytes that share their checksums.
  Status verifyRange(const CheckpointTensor &tensor, const CheckpointPiece &piece, uint64_t begin, uint64_t end);
  void verifyFile(uint32_t number, std::vector<std::string> &lines);

  std::string path, prefix; // prefix: of the names of files, with a slash at its end
  std::string listing;      // the file that names the others
  CheckpointIndex contents;
  std::vector<File> files;
  std::map<const CheckpointPiece *, std::vector<bool>> done; // which checksums of a piece were compared
  uint64_t copied = 0, verified = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_READER_H

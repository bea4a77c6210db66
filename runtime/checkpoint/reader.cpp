// SPDX-License-Identifier: Apache-2.0

#include "runtime/checkpoint/reader.h"

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace ashlar::rt {

namespace {

// A piece and the tensor that it is of.
struct PlacedPiece {
  const CheckpointTensor *tensor;
  const CheckpointPiece *piece;
};

uint64_t bytesOf(const CheckpointTensor &tensor, const CheckpointPiece &piece) {
  return countElements(piece.size) * dtypeBytes(tensor.dtype);
}

// Where the part with a checksum lies in the piece.
struct Part {
  uint64_t begin, bytes;
};

Part partOf(const CheckpointTensor &tensor, const CheckpointPiece &piece, uint64_t number) {
  const uint64_t begin = number * kChecksumBytes;
  return {begin, std::min<uint64_t>(kChecksumBytes, bytesOf(tensor, piece) - begin)};
}

// Returns the pieces in a file by their places, without empty ones: those are in no file.
std::vector<PlacedPiece> piecesIn(const CheckpointIndex &index, uint32_t file) {
  std::vector<PlacedPiece> pieces;
  for (const CheckpointTensor &tensor : index.tensors) {
    for (const CheckpointPiece &piece : tensor.pieces) {
      if (piece.file == file && countElements(piece.size) != 0) {
        pieces.push_back({&tensor, &piece});
      }
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const PlacedPiece &a, const PlacedPiece &b) { return a.piece->offset < b.piece->offset; });
  return pieces;
}

// Checks that a file's own header says what the index does. Who reads the file without the index relies on it.
Status checkHeader(const MappedFile &mapped, const std::string &path, const std::vector<PlacedPiece> &pieces) {
  SafetensorsHeader header;
  ASHLAR_RETURN_IF_ERROR(readSafetensorsHeader({mapped.data(), mapped.size()}, mapped.size(), path, header));
  const std::string end = fmt::format(", which differs from {}", kIndexFile);
  if (header.tensors.size() != pieces.size()) {
    return invalid("{} is damaged: its header names {} tensors, not {}{}", path, header.tensors.size(), pieces.size(), end);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto &[tensor, piece] = pieces[i];
    const StoredTensor &stored = header.tensors[i];
    const std::string name = pieceName(tensor->name, tensor->shape, piece->start, piece->size);
    if (header.bytes + stored.begin != piece->offset || stored.dtype != tensor->dtype || stored.shape != piece->size ||
        stored.name != name) {
      return invalid("{} is damaged: its header has {} at byte {} where {} at byte {} is to be{}", path, stored.name,
                     header.bytes + stored.begin, name, piece->offset, end);
    }
  }
  return Status();
}

} // namespace

Status CheckpointReader::open(const std::string &folder) {
  close();
  copied = verified = 0;
  path = folder;
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  prefix = path + "/";
  ASHLAR_RETURN_IF_ERROR(readIndex(path, contents));
  listing = prefix + kIndexFile;
  files.resize(contents.files.size());
  return Status();
}

Status CheckpointReader::openWeights(const std::string &fileOrFolder, const RenameRules &rules) {
  if (std::filesystem::is_directory(fileOrFolder)) {
    ASHLAR_RETURN_IF_ERROR(open(fileOrFolder));
    std::vector<CheckpointTensor> &tensors = contents.tensors;
    tensors.erase(std::remove_if(tensors.begin(), tensors.end(), [](const CheckpointTensor &tensor) { return !tensor.isParameter(); }),
                  tensors.end());
  } else {
    close();
    copied = verified = 0;
    path = fileOrFolder;
    prefix = path.substr(0, path.rfind('/') + 1); // npos + 1 == 0
    ASHLAR_RETURN_IF_ERROR(listWeights(path, contents));
    listing = path;
    files.resize(contents.files.size());
  }
  return renameTensors(rules, contents, path);
}

std::vector<std::string> CheckpointReader::paths() const {
  std::vector<std::string> all = {listing};
  for (uint32_t number = 0; number < contents.files.size(); ++number) {
    all.push_back(placeOf(number));
  }
  return all;
}

void CheckpointReader::close() {
  files.clear();
  done.clear();
}

Status CheckpointReader::check() const {
  for (const File &file : files) {
    ASHLAR_RETURN_IF_ERROR(file.isOpen ? file.mapped.check() : Status());
  }
  return Status();
}

Status CheckpointReader::openFile(uint32_t number, const MappedFile *&mapped) {
  File &file = files[number];
  if (!file.isOpen) {
    ASHLAR_RETURN_IF_ERROR(MappedFile::open(placeOf(number), file.mapped));
    if (file.mapped.size() != contents.files[number].bytes) {
      return unavailable("{} has {} bytes but had {} when it was looked at first; leave it alone during a run", placeOf(number),
                         file.mapped.size(), contents.files[number].bytes);
    }
    file.isOpen = true;
  }
  mapped = &file.mapped;
  return Status();
}

Status CheckpointReader::verifyRange(const CheckpointTensor &tensor, const CheckpointPiece &piece, uint64_t begin, uint64_t end) {
  if (piece.checksums.empty()) {
    return Status();
  }
  const MappedFile &mapped = files[piece.file].mapped;
  std::vector<bool> &compared = done[&piece];
  compared.resize(piece.checksums.size());
  for (uint64_t number = begin / kChecksumBytes; number * kChecksumBytes < end; ++number) {
    if (compared[number]) {
      continue;
    }
    const Part part = partOf(tensor, piece, number);
    const uint64_t first = piece.offset + part.begin, found = checksumOf(mapped.data() + first, part.bytes);
    if (found != piece.checksums[number]) {
      ASHLAR_RETURN_IF_ERROR(mapped.check()); // rather that it was cut
      return invalid("{} is damaged: bytes {} to {}, of {}, have the checksum {:016x}, not {:016x}; take another checkpoint",
                     placeOf(piece.file), first, first + part.bytes - 1, tensor.name, found, piece.checksums[number]);
    }
    compared[number] = true;
    verified += part.bytes;
  }
  return Status();
}

Status CheckpointReader::read(const CheckpointTensor &tensor, const Box &wanted, char *array) {
  const uint64_t element = dtypeBytes(tensor.dtype);
  return read(tensor, wanted, [&](const char *from, int64_t to, int64_t count) {
    std::memcpy(array + static_cast<uint64_t>(to) * element, from, static_cast<uint64_t>(count) * element);
  });
}

Status CheckpointReader::read(const CheckpointTensor &tensor, const Box &wanted, const Use &use) {
  if (contents.hosts == 0) {
    return readPieces(tensor, wanted, use);
  }
  // The part of a host may lack some, and, of a tensor on several stages, have some twice.
  std::vector<bool> found(countElements({wanted.shape, wanted.shape + wanted.rank}), false);
  ASHLAR_RETURN_IF_ERROR(readPieces(tensor, wanted, [&](const char *from, int64_t to, int64_t count) {
    std::fill(found.begin() + to, found.begin() + to + count, true);
    use(from, to, count);
  }));
  const auto has = static_cast<uint64_t>(std::count(found.begin(), found.end(), true));
  const uint64_t needs = countElements({wanted.size, wanted.size + wanted.rank});
  return has == needs
             ? Status()
             : invalid("{} has {} of the {} wanted elements of {}: it is the part of host {} of {}, which --checkpoint-local kept; "
                       "start the same ranks on the hosts that wrote it",
                       path, has, needs, tensor.name, contents.host, contents.hosts);
}

Status CheckpointReader::readPieces(const CheckpointTensor &tensor, const Box &wanted, const Use &use) {
  const uint64_t element = dtypeBytes(tensor.dtype);
  for (const CheckpointPiece &piece : tensor.pieces) {
    const Box stored = {tensor.shape.size(), piece.start.data(), piece.size.data(), piece.size.data()};
    ASHLAR_RETURN_IF_ERROR(forEachCommonRun(stored, wanted, [&](int64_t from, int64_t to, int64_t count) {
      const uint64_t begin = static_cast<uint64_t>(from) * element, bytes = static_cast<uint64_t>(count) * element;
      const MappedFile *mapped = nullptr;
      ASHLAR_RETURN_IF_ERROR(openFile(piece.file, mapped));
      ASHLAR_RETURN_IF_ERROR(verifyRange(tensor, piece, begin, begin + bytes));
      use(mapped->data() + piece.offset + begin, to, count);
      copied += bytes;
      return Status();
    }));
  }
  return Status();
}

Status CheckpointReader::forEachFile(const std::function<void(const MappedFile &file)> &look) {
  for (uint32_t number = 0; number < files.size(); ++number) {
    const MappedFile *mapped = nullptr;
    ASHLAR_RETURN_IF_ERROR(openFile(number, mapped));
    look(*mapped);
  }
  return Status();
}

std::vector<std::string> CheckpointReader::verify() {
  std::vector<std::string> lines;
  for (uint32_t number = 0; number < files.size(); ++number) {
    verifyFile(number, lines);
  }
  return lines;
}

void CheckpointReader::verifyFile(uint32_t number, std::vector<std::string> &lines) {
  const std::string place = placeOf(number);
  const std::vector<PlacedPiece> pieces = piecesIn(contents, number);
  const MappedFile *mapped = nullptr;
  if (Status opened = openFile(number, mapped); !opened.ok()) {
    lines.push_back(opened.message());
    return;
  }
  if (Status header = checkHeader(*mapped, place, pieces); !header.ok()) {
    lines.push_back(header.message());
  }
  for (const auto &[tensor, piece] : pieces) {
    // Parts that follow each other and are damaged are one range.
    uint64_t begin = 0, end = 0;
    for (uint64_t part = 0; part <= piece->checksums.size(); ++part) {
      const bool isPart = part < piece->checksums.size();
      const Part at = isPart ? partOf(*tensor, *piece, part) : Part();
      if (isPart && checksumOf(mapped->data() + piece->offset + at.begin, at.bytes) != piece->checksums[part]) {
        begin = begin == end ? at.begin : begin;
        end = at.begin + at.bytes;
        continue;
      }
      verified += at.bytes;
      if (begin != end) {
        lines.push_back(fmt::format("{} is damaged: bytes {} to {}, of {}, have other checksums than in {}", place, piece->offset + begin,
                                    piece->offset + end - 1, tensor->name, kIndexFile));
        begin = end = 0;
      }
    }
  }
  if (Status whole = mapped->check(); !whole.ok()) {
    lines.push_back(whole.message());
  }
}

} // namespace ashlar::rt

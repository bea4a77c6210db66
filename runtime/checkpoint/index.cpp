// SPDX-License-Identifier: Apache-2.0

#include "runtime/checkpoint/index.h"

#include "runtime/base/dtype.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include <sys/stat.h>

namespace ashlar::rt {

namespace {

using Json = nlohmann::json; // sorts its keys

constexpr uint64_t kFormat = 1;
constexpr uint64_t kMostIndexBytes = uint64_t{1} << 30; // as many as a checkpoint of 4 TB has
constexpr uint64_t kMostNumber = uint64_t{1} << 48;     // of steps, samples and checkpoints; products of two fit
constexpr int kDeepestJson = 16;
constexpr size_t kMostOddPieces = 4096;
constexpr const char *kChecksum = "checksum", *kNumber = "number", *kHost = "host", *kHosts = "hosts", *kParts = "parts";

// Counters of the program have such names; parameters cannot (docs/checkpoints.md).
constexpr const char *kCounterPrefix = "ashlar.";

std::string dump(const Json &json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string checksumOfIndex(Json json) {
  json.erase(kChecksum);
  const std::string text = dump(json);
  return checksumText({checksumOf(text.data(), text.size())});
}

Json toJson(const CheckpointTensor &tensor) {
  Json pieces = Json::array();
  for (const CheckpointPiece &piece : tensor.pieces) {
    pieces.push_back({{"file", piece.file},
                      {"offset", piece.offset},
                      {"start", piece.start},
                      {"size", piece.size},
                      {"checksums", checksumText(piece.checksums)}});
  }
  Json json = {{"name", tensor.name}, {"dtype", safetensorsType(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", pieces}};
  if (!tensor.stateOf.empty()) {
    json["state_of"] = tensor.stateOf;
  }
  return json;
}

// The readers use at() and get(), which throw what readIndex() catches; a loop over what is no list would be over nothing. Of a number
// get() makes something whatever it is, so that numbers are read by wholeNumber().
uint64_t wholeNumber(const Json &json, const char *key, uint64_t most) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > most) {
    throw std::out_of_range(
        fmt::format("{} is {}, not a whole number from 0 to {}", key, json.is_number() ? dump(json) : json.type_name(), most));
  }
  return json.get<uint64_t>();
}

uint64_t numberAt(const Json &json, const char *key, uint64_t most = kMostNumber) {
  return wholeNumber(json.at(key), key, most);
}

std::vector<int64_t> sizesAt(const Json &json, const char *key) {
  std::vector<int64_t> sizes;
  for (const Json &size : json.at(key).get<std::vector<Json>>()) {
    sizes.push_back(static_cast<int64_t>(wholeNumber(size, key, INT64_MAX)));
  }
  return sizes;
}

CheckpointPiece pieceFrom(const Json &json) {
  CheckpointPiece piece;
  piece.file = static_cast<uint32_t>(numberAt(json, "file", UINT32_MAX));
  piece.offset = numberAt(json, "offset", INT64_MAX);
  piece.start = sizesAt(json, "start");
  piece.size = sizesAt(json, "size");
  if (!readChecksums(json.at("checksums").get<std::string>(), piece.checksums)) {
    piece.checksums.clear();
  }
  return piece;
}

CheckpointTensor tensorFrom(const Json &json) {
  CheckpointTensor tensor;
  tensor.name = json.at("name").get<std::string>();
  tensor.dtype = dtypeOfSafetensors(json.at("dtype").get<std::string>());
  tensor.stateOf = json.value("state_of", "");
  tensor.shape = sizesAt(json, "shape");
  for (const Json &piece : json.at("pieces").get<std::vector<Json>>()) {
    tensor.pieces.push_back(pieceFrom(piece));
  }
  return tensor;
}

CheckpointIndex indexFrom(const Json &json) {
  CheckpointIndex index;
  index.model = json.at("model").get<std::string>();
  index.target = json.at("target").get<std::string>();
  index.mesh = json.at("mesh").get<std::string>();
  index.ranks = numberAt(json, "ranks");
  index.hosts = json.contains(kHosts) ? numberAt(json, kHosts) : 0;
  index.host = json.contains(kHosts) ? numberAt(json, kHost) : 0;
  index.parts = json.contains(kParts) ? numberAt(json, kParts) : 1;
  index.number = json.contains(kNumber) ? numberAt(json, kNumber) : 0;
  index.epoch = numberAt(json, "epoch");
  index.step = numberAt(json, "step");
  index.stepsDone = numberAt(json, "steps_done");
  index.samplesAStep = numberAt(json, "samples_a_step");
  index.samples = numberAt(json, "samples");
  index.seed = numberAt(json, "seed", UINT64_MAX);
  for (const Json &file : json.at("files").get<std::vector<Json>>()) {
    index.files.push_back({file.at("name").get<std::string>(), numberAt(file, "bytes", INT64_MAX)});
  }
  for (const Json &tensor : json.at("tensors").get<std::vector<Json>>()) {
    index.tensors.push_back(tensorFrom(tensor));
  }
  return index;
}

// Whether the piece is one of the tensor, in its file.
bool isPiece(const CheckpointPiece &piece, const CheckpointTensor &tensor, const std::vector<CheckpointFile> &files) {
  if (piece.file >= files.size() || piece.start.size() != tensor.shape.size() || piece.size.size() != tensor.shape.size()) {
    return false;
  }
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    if (piece.start[dim] < 0 || piece.size[dim] < 0 || piece.start[dim] > tensor.shape[dim] - piece.size[dim]) {
      return false;
    }
  }
  const uint64_t bytes = countElements(piece.size) * dtypeBytes(tensor.dtype), ofFile = files[piece.file].bytes;
  return piece.offset <= ofFile && bytes <= ofFile - piece.offset &&
         piece.checksums.size() == (bytes + kChecksumBytes - 1) / kChecksumBytes;
}

// Whether the pieces that hold something are a grid, each dim cut by itself, as programs write them. n pieces take n log n.
bool isGrid(const CheckpointTensor &tensor) {
  std::vector<std::map<int64_t, int64_t>> cuts(tensor.shape.size()); // of each dim: start -> size
  std::set<std::vector<int64_t>> places;
  for (const CheckpointPiece &piece : tensor.pieces) {
    if (countElements(piece.size) == 0) {
      continue;
    }
    for (size_t dim = 0; dim < cuts.size(); ++dim) {
      if (cuts[dim].emplace(piece.start[dim], piece.size[dim]).first->second != piece.size[dim]) {
        return false;
      }
    }
    if (!places.insert(piece.start).second) {
      return false;
    }
  }
  if (countElements(tensor.shape) == 0) {
    return places.empty();
  }
  uint64_t wanted = 1;
  for (size_t dim = 0; dim < cuts.size() && wanted <= places.size(); ++dim) {
    int64_t end = 0;
    for (const auto &[start, size] : cuts[dim]) {
      if (start != end) {
        return false;
      }
      end += size;
    }
    if (end != tensor.shape[dim]) {
      return false;
    }
    wanted *= cuts[dim].size();
  }
  return wanted == places.size();
}

// Whether no two pieces overlap; with as many elements as the tensor has they then make it up.
bool areApart(const std::vector<CheckpointPiece> &pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      bool apart = false;
      for (size_t dim = 0; dim < pieces[i].start.size(); ++dim) {
        apart = apart || pieces[i].start[dim] + pieces[i].size[dim] <= pieces[j].start[dim] ||
                pieces[j].start[dim] + pieces[j].size[dim] <= pieces[i].start[dim];
      }
      if (!apart && countElements(pieces[i].size) != 0 && countElements(pieces[j].size) != 0) {
        return false;
      }
    }
  }
  return true;
}

// Whether the pieces make up the tensor. What is no grid is compared piece by piece, so that it may not have many.
bool makeUp(const CheckpointTensor &tensor) {
  if (isGrid(tensor)) {
    return true;
  }
  uint64_t elements = 0;
  for (const CheckpointPiece &piece : tensor.pieces) {
    elements += countElements(piece.size);
  }
  return tensor.pieces.size() <= kMostOddPieces && elements == countElements(tensor.shape) && areApart(tensor.pieces);
}

// Whether there can be such a tensor: of a rank that programs have, and of bytes that can be counted.
bool isShape(const CheckpointTensor &tensor) {
  int64_t bytes = static_cast<int64_t>(dtypeBytes(tensor.dtype));
  bool good = tensor.shape.size() <= ASHLAR_RT_MAX_RANK;
  for (int64_t size : tensor.shape) {
    good = good && size >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  }
  return good;
}

Status check(const CheckpointTensor &tensor, const CheckpointIndex &index, const std::string &path) {
  bool good = tensor.dtype != 0 && isShape(tensor);
  for (const CheckpointPiece &piece : tensor.pieces) {
    good = good && isPiece(piece, tensor, index.files);
  }
  good = good && (index.hosts != 0 || makeUp(tensor));
  return good ? Status() : invalid("{}: the pieces of {} do not make it up; the checkpoint is damaged", path, tensor.name);
}

// Whether a text of JSON is nested no deeper than any index. A callback of the parser that asked would take n * n for arrays of n.
bool isFlat(std::string_view text) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (inString) {
      i += letter == '\\' ? 1 : 0;
      inString = letter != '"';
      continue;
    }
    inString = letter == '"';
    depth += letter == '[' || letter == '{' ? 1 : letter == ']' || letter == '}' ? -1 : 0;
    if (depth > kDeepestJson) {
      return false;
    }
  }
  return true;
}

} // namespace

uint64_t countElements(const std::vector<int64_t> &shape) {
  uint64_t elements = 1;
  for (int64_t size : shape) {
    elements *= static_cast<uint64_t>(size);
  }
  return elements;
}

uint64_t CheckpointTensor::bytes() const {
  return countElements(shape) * dtypeBytes(dtype);
}

bool CheckpointTensor::isPosition() const {
  return name == std::string(kCounterPrefix) + "seed" || name == std::string(kCounterPrefix) + "step";
}

bool CheckpointTensor::isParameter() const {
  return stateOf.empty() && name.rfind(kCounterPrefix, 0) != 0;
}

CheckpointPiece wholePiece(uint32_t file, uint64_t offset, const std::vector<int64_t> &shape) {
  return {file, offset, std::vector<int64_t>(shape.size()), shape, {}};
}

const CheckpointTensor *CheckpointIndex::find(const std::string &name) const {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                      [](const CheckpointTensor &tensor, const std::string &of) { return tensor.name < of; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

std::string pieceName(const std::string &tensor, const std::vector<int64_t> &shape, const std::vector<int64_t> &start,
                      const std::vector<int64_t> &size) {
  std::string ranges;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    ranges += fmt::format("{}{}:{}", dim == 0 ? "" : ",", start[dim], start[dim] + size[dim]);
  }
  return size == shape ? tensor : fmt::format("{}[{}]", tensor, ranges);
}

std::string writeIndex(const CheckpointIndex &index) {
  Json files = Json::array(), tensors = Json::array();
  for (const CheckpointFile &file : index.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  for (const CheckpointTensor &tensor : index.tensors) {
    tensors.push_back(toJson(tensor));
  }
  Json json = {{"format", kFormat},
               {"model", index.model},
               {"target", index.target},
               {"mesh", index.mesh},
               {"ranks", index.ranks},
               {kNumber, index.number},
               {"epoch", index.epoch},
               {"step", index.step},
               {"steps_done", index.stepsDone},
               {"samples_a_step", index.samplesAStep},
               {"samples", index.samples},
               {"seed", index.seed},
               {"files", files},
               {"tensors", tensors}};
  if (index.hosts != 0) {
    json[kHost] = index.host;
    json[kHosts] = index.hosts;
  }
  if (index.parts != 1) {
    json[kParts] = index.parts;
  }
  json[kChecksum] = checksumOfIndex(json);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool readNumber(const std::string &folder, uint64_t &number) {
  MappedFile file;
  if (!MappedFile::open(folder + "/" + kIndexFile, file, kMostIndexBytes).ok()) {
    return false;
  }
  const auto isShort = [](int depth, Json::parse_event_t event, Json &) { return depth != 1 || event != Json::parse_event_t::array_start; };
  const Json json = Json::parse(file.data(), file.data() + file.size(), isShort, /*allow_exceptions=*/false);
  const Json found = json.is_object() ? json.value(kNumber, Json(uint64_t{0})) : Json();
  number = found.is_number_unsigned() ? found.get<uint64_t>() : 0;
  return found.is_number_unsigned() && number <= kMostNumber && file.check().ok();
}

Status readIndex(const std::string &folder, CheckpointIndex &index) {
  const std::string path = folder + "/" + kIndexFile;
  MappedFile file;
  if (Status opened = MappedFile::open(path, file, kMostIndexBytes); !opened.ok()) {
    return unavailable("{}; a checkpoint is a folder with an {}", opened.message(), kIndexFile);
  }
  const bool isRead = isFlat({file.data(), file.size()}); // dump() goes down by recursion
  const Json json = isRead ? Json::parse(file.data(), file.data() + file.size(), nullptr, /*allow_exceptions=*/false) : Json();
  ASHLAR_RETURN_IF_ERROR(file.check());
  if (!json.is_object()) {
    return invalid("{} is no JSON object; the checkpoint is damaged", path);
  }
  const Json format = json.value("format", Json());
  if (format != kFormat) {
    return invalid("{} has format {} but this program reads format {}", path,
                   format.is_number() || format.is_null() ? dump(format) : "unknown", kFormat);
  }
  const Json stored = json.value(kChecksum, Json());
  const std::string found = checksumOfIndex(json);
  if (stored != found) {
    std::vector<uint64_t> ofText;
    const bool isOne = stored.is_string() && readChecksums(stored.get<std::string>(), ofText) && ofText.size() == 1;
    return invalid("{} has the checksum \"{}\" but records {}; the checkpoint is damaged", path, found,
                   isOne || stored.is_null() ? dump(stored) : "none");
  }
  try {
    index = indexFrom(json);
  } catch (const Json::exception &error) {
    return invalid("{}: {}; the checkpoint is damaged", path, error.what());
  } catch (const std::out_of_range &error) {
    return invalid("{}: {}; the checkpoint is damaged", path, error.what());
  }
  std::sort(index.tensors.begin(), index.tensors.end(),
            [](const CheckpointTensor &a, const CheckpointTensor &b) { return a.name < b.name; });
  for (size_t i = 0; i < index.tensors.size(); ++i) {
    ASHLAR_RETURN_IF_ERROR(check(index.tensors[i], index, path));
    if (i > 0 && index.tensors[i].name == index.tensors[i - 1].name) {
      return invalid("{} has two tensors {}; the checkpoint is damaged", path, index.tensors[i].name);
    }
  }
  for (const CheckpointFile &entry : index.files) {
    const std::string place = folder + "/" + entry.name;
    struct stat info = {};
    if (entry.name.find('/') != std::string::npos || stat(place.c_str(), &info) != 0) {
      return unavailable("{} is not there but {} names it; the checkpoint is damaged", place, kIndexFile);
    }
    if (static_cast<uint64_t>(info.st_size) != entry.bytes) {
      return invalid("{} has {} bytes but {} records {}; the checkpoint is damaged", place, info.st_size, kIndexFile, entry.bytes);
    }
  }
  return Status();
}

} // namespace ashlar::rt

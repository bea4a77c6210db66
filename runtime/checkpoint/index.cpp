// SPDX-License-Identifier: Apache-2.0

#include "runtime/checkpoint/index.h"

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/checksums.h"
#include "runtime/checkpoint/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <sys/stat.h>

namespace ashlar::rt {

namespace {

using Json = nlohmann::json; // sorts its keys

constexpr uint64_t kFormat = 1;
constexpr const char *kChecksum = "checksum", *kNumber = "number";

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

// The readers use at() and get(), which throw what readIndex() catches; a loop over what is no list would be over nothing.
CheckpointPiece pieceFrom(const Json &json) {
  CheckpointPiece piece;
  piece.file = json.at("file").get<uint32_t>();
  piece.offset = json.at("offset").get<uint64_t>();
  piece.start = json.at("start").get<std::vector<int64_t>>();
  piece.size = json.at("size").get<std::vector<int64_t>>();
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
  tensor.shape = json.at("shape").get<std::vector<int64_t>>();
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
  index.ranks = json.at("ranks").get<uint64_t>();
  index.number = json.value(kNumber, uint64_t{0});
  index.epoch = json.at("epoch").get<uint64_t>();
  index.step = json.at("step").get<uint64_t>();
  index.stepsDone = json.at("steps_done").get<uint64_t>();
  index.samplesAStep = json.at("samples_a_step").get<uint64_t>();
  index.samples = json.at("samples").get<uint64_t>();
  index.seed = json.at("seed").get<uint64_t>();
  for (const Json &file : json.at("files").get<std::vector<Json>>()) {
    index.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<uint64_t>()});
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

// Whether there can be such a tensor: of a rank that programs have, and of bytes that can be counted.
bool isShape(const CheckpointTensor &tensor) {
  int64_t bytes = static_cast<int64_t>(dtypeBytes(tensor.dtype));
  bool good = tensor.shape.size() <= ASHLAR_RT_MAX_RANK;
  for (int64_t size : tensor.shape) {
    good = good && size >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  }
  return good;
}

Status check(const CheckpointTensor &tensor, const std::vector<CheckpointFile> &files, const std::string &path) {
  uint64_t elements = 0;
  bool good = tensor.dtype != 0 && isShape(tensor);
  for (const CheckpointPiece &piece : tensor.pieces) {
    good = good && isPiece(piece, tensor, files);
    elements += good ? countElements(piece.size) : 0;
  }
  good = good && elements == countElements(tensor.shape) && areApart(tensor.pieces);
  return good ? Status() : invalid("{}: the pieces of {} do not make it up; the checkpoint is damaged", path, tensor.name);
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
  json[kChecksum] = checksumOfIndex(json);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool readNumber(const std::string &folder, uint64_t &number) {
  std::ifstream file(folder + "/" + kIndexFile, std::ios::binary);
  const auto isShort = [](int depth, Json::parse_event_t event, Json &) { return depth != 1 || event != Json::parse_event_t::array_start; };
  const Json json = Json::parse(file, isShort, /*allow_exceptions=*/false);
  const Json found = json.is_object() ? json.value(kNumber, Json(uint64_t{0})) : Json();
  number = found.is_number_unsigned() ? found.get<uint64_t>() : 0;
  return found.is_number_unsigned();
}

Status readIndex(const std::string &folder, CheckpointIndex &index) {
  const std::string path = folder + "/" + kIndexFile;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return unavailable("cannot open \"{}\": {}; a checkpoint is a folder with an {}", path, std::strerror(errno), kIndexFile);
  }
  std::ostringstream text;
  text << file.rdbuf();
  const Json json = Json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return invalid("{} is no JSON object; the checkpoint is damaged", path);
  }
  const Json format = json.value("format", Json());
  if (format != kFormat) {
    return invalid("{} is of format {} but this program reads format {}", path, format.dump(), kFormat);
  }
  const std::string stored = dump(json.value(kChecksum, Json())), found = "\"" + checksumOfIndex(json) + "\"";
  if (stored != found) {
    return invalid("{} has the checksum {} but says {}; the checkpoint is damaged", path, found, stored);
  }
  try {
    index = indexFrom(json);
  } catch (const Json::exception &error) {
    return invalid("{}: {}; the checkpoint is damaged", path, error.what());
  }
  std::sort(index.tensors.begin(), index.tensors.end(),
            [](const CheckpointTensor &a, const CheckpointTensor &b) { return a.name < b.name; });
  for (size_t i = 0; i < index.tensors.size(); ++i) {
    ASHLAR_RETURN_IF_ERROR(check(index.tensors[i], index.files, path));
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
      return invalid("{} has {} bytes but {} says {}; the checkpoint is damaged", place, info.st_size, kIndexFile, entry.bytes);
    }
  }
  return Status();
}

} // namespace ashlar::rt

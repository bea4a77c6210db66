// SPDX-License-Identifier: Apache-2.0

#include "runtime/checkpoint/safetensors.h"

#include "runtime/base/dtype.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <set>

namespace ashlar::rt {

namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kAlignment = 64;

// Reads one entry of the header. Returns false where it is none.
bool readTensor(const std::string &name, const Json &entry, StoredTensor &tensor) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry["shape"].is_array() || !entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2) {
    return false;
  }
  tensor.name = name;
  tensor.dtype = dtypeOfSafetensors(entry["dtype"].get<std::string>());
  for (const Json &size : entry["shape"]) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX) {
      return false;
    }
    tensor.shape.push_back(size.get<int64_t>());
  }
  const Json &offsets = entry["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned() || offsets[1].get<uint64_t>() < offsets[0].get<uint64_t>()) {
    return false;
  }
  tensor.begin = offsets[0].get<uint64_t>();
  tensor.bytes = offsets[1].get<uint64_t>() - tensor.begin;
  return true;
}

// Whether the shape has as many bytes as the tensor.
bool hasBytes(const StoredTensor &tensor) {
  uint64_t bytes = dtypeBytes(tensor.dtype);
  for (int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      return false;
    }
  }
  return bytes == tensor.bytes;
}

} // namespace

const char *safetensorsType(uint32_t dtype) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    return "F32";
  case ASHLAR_RT_F64:
    return "F64";
  case ASHLAR_RT_F16:
    return "F16";
  case ASHLAR_RT_BF16:
    return "BF16";
  case ASHLAR_RT_BOOL:
    return "BOOL";
  case ASHLAR_RT_I8:
    return "I8";
  case ASHLAR_RT_I16:
    return "I16";
  case ASHLAR_RT_I32:
    return "I32";
  case ASHLAR_RT_I64:
    return "I64";
  case ASHLAR_RT_U8:
    return "U8";
  case ASHLAR_RT_U16:
    return "U16";
  case ASHLAR_RT_U32:
    return "U32";
  case ASHLAR_RT_U64:
    return "U64";
  default:
    return "";
  }
}

uint32_t dtypeOfSafetensors(std::string_view type) {
  for (uint32_t dtype = ASHLAR_RT_F32; dtype <= ASHLAR_RT_U64; ++dtype) {
    if (type == safetensorsType(dtype)) {
      return dtype;
    }
  }
  return 0;
}

std::string writeSafetensorsHeader(const std::vector<StoredTensor> &tensors, const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    json[kSafetensorsMetadata] = metadata;
  }
  for (const StoredTensor &tensor : tensors) {
    json[tensor.name] = {
        {"dtype", safetensorsType(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.begin + tensor.bytes}}};
  }
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((kLengthBytes + text.size() + kAlignment - 1) / kAlignment * kAlignment - kLengthBytes, ' ');
  const uint64_t length = text.size();
  std::string header(kLengthBytes, '\0');
  std::memcpy(header.data(), &length, kLengthBytes);
  return header + text;
}

Status readSafetensorsHeader(std::string_view data, uint64_t size, const std::string &path, SafetensorsHeader &header) {
  uint64_t length = 0;
  if (data.size() >= kLengthBytes) {
    std::memcpy(&length, data.data(), kLengthBytes);
  }
  if (length == 0 || length > data.size() - kLengthBytes) {
    return invalid("{} is no safetensors file: a header of {} bytes in a file of {}", path, length, size);
  }
  const std::string_view text = data.substr(kLengthBytes, length);
  std::set<std::string> names;
  std::string twice; // of two entries of one name the JSON would keep one
  const auto look = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  const Json json = Json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return invalid("{} is no safetensors file: its header of {} bytes is no JSON object", path, length);
  }
  if (!twice.empty()) {
    return invalid("{}: its header has two entries {}", path, twice);
  }
  header = SafetensorsHeader();
  header.bytes = kLengthBytes + length;
  for (const auto &[name, entry] : json.items()) {
    if (name == kSafetensorsMetadata) {
      for (const auto &[key, value] : entry.items()) {
        header.metadata[key] = value.is_string() ? value.get<std::string>() : value.dump();
      }
      continue;
    }
    StoredTensor tensor;
    if (!readTensor(name, entry, tensor)) {
      return invalid("{}: the header's entry of {} has no dtype, shape and data_offsets", path, name);
    }
    if (tensor.dtype == 0) {
      return invalid("{}: {} has type {}, which Ashlar does not have", path, name, entry["dtype"].dump());
    }
    if (!hasBytes(tensor)) {
      return invalid("{}: {} has {} bytes, which its shape and type do not", path, name, tensor.bytes);
    }
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor &a, const StoredTensor &b) { return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes; });
  uint64_t end = 0;
  for (const StoredTensor &tensor : header.tensors) {
    if (tensor.begin != end) {
      return invalid("{}: {} begins at byte {}, the tensor before it ends at {}", path, tensor.name, tensor.begin, end);
    }
    end += tensor.bytes;
  }
  if (end != size - header.bytes) { // the header lies in the file
    return invalid("{} has {} bytes, {} by its header; it was cut or is damaged", path, size, header.bytes + end);
  }
  return Status();
}

} // namespace ashlar::rt

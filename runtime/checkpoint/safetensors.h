// SPDX-License-Identifier: Apache-2.0
//
// The header of a safetensors file: 8 bytes of length, little endian, JSON that names tensors, types, shapes and places, and spaces. After
// it lie the tensors, dense, row major, without gaps. The format is defined at https://github.com/huggingface/safetensors.

#ifndef ASHLAR_RUNTIME_CHECKPOINT_SAFETENSORS_H
#define ASHLAR_RUNTIME_CHECKPOINT_SAFETENSORS_H

#include "runtime/base/status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::rt {

// The entry of the header that is no tensor.
inline constexpr char kSafetensorsMetadata[] = "__metadata__";

// A tensor of a file.
struct StoredTensor {
  std::string name;
  uint32_t dtype = 0; // ashlar_rt_dtype
  std::vector<int64_t> shape;
  uint64_t begin = 0, bytes = 0; // behind the header
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors; // in the order of their places
  std::map<std::string, std::string> metadata;
  uint64_t bytes = 0; // of the header: where the tensors begin
};

// Returns the header of a file. Its length is a multiple of 64, so that tensors that follow each other at multiples of 64 are aligned.
std::string writeSafetensorsHeader(const std::vector<StoredTensor> &tensors, const std::map<std::string, std::string> &metadata);

// Reads the header from the beginning of a file of `size` bytes; `data` has at least the header's bytes. Refuses tensors that overlap,
// leave gaps, or do not lie in the file; `path` is for the error.
Status readSafetensorsHeader(std::string_view data, uint64_t size, const std::string &path, SafetensorsHeader &header);

// Returns the name that safetensors has for a type, like "F32", and the type of that name; 0 for one that the runtime does not have.
const char *safetensorsType(uint32_t dtype);
uint32_t dtypeOfSafetensors(std::string_view type);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_SAFETENSORS_H

// SPDX-License-Identifier: Apache-2.0
//
// Checksums of a checkpoint: XXH64 of each 64 KiB, so that reading a part verifies only that part.

#ifndef ASHLAR_RUNTIME_CHECKPOINT_CHECKSUMS_H
#define ASHLAR_RUNTIME_CHECKPOINT_CHECKSUMS_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::rt {

// Bytes covered by one checksum; the last one of a piece covers the rest.
constexpr size_t kChecksumBytes = size_t{64} << 10;

// Returns the checksum of some bytes.
uint64_t checksumOf(const void *data, size_t bytes);

// Returns the checksum of each kChecksumBytes.
std::vector<uint64_t> checksumsOf(const void *data, size_t bytes);

// Returns them as hexadecimal digits, 16 each, and back. Reading returns false where the text is none.
std::string checksumText(const std::vector<uint64_t> &checksums);
bool readChecksums(std::string_view text, std::vector<uint64_t> &checksums);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_CHECKPOINT_CHECKSUMS_H

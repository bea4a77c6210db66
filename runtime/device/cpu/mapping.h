// SPDX-License-Identifier: Apache-2.0
//
// Zero-filled memory of the cpu device: private to the process, or shared by the processes of one host. Device arenas lie in it.

#ifndef ASHLAR_RUNTIME_DEVICE_CPU_MAPPING_H
#define ASHLAR_RUNTIME_DEVICE_CPU_MAPPING_H

#include "runtime/base/status.h"

#include <cstddef>
#include <string>

namespace ashlar::rt {

// Owns one mapping; unmaps it when it dies. Movable, not copyable. The start is aligned to 4096 and reads as zeros.
class Mapping {
public:
  Mapping() = default;
  Mapping(Mapping &&other) noexcept;
  Mapping &operator=(Mapping &&other) noexcept;
  ~Mapping();

  // Maps memory that only this process (and its threads) sees.
  static Status createPrivate(size_t bytes, Mapping &mapping);

  // Creates the shared segment `name` ("/...") of `bytes`, none of it backed yet, and maps it. A segment that a killed job left under the
  // same name is removed first.
  static Status createShared(const std::string &name, size_t bytes, Mapping &mapping);

  // Maps `bytes` of the shared segment `name`. `found` is false, and the status ok, while nobody has created it or it is still shorter.
  static Status attachShared(const std::string &name, size_t bytes, Mapping &mapping, bool &found);

  // Makes the kernel provide the pages of [begin, end) now, so that a /dev/shm which is too small is an error here and not a SIGBUS later.
  // Does nothing for private memory.
  Status reserve(size_t begin, size_t end);

  // First byte; null when nothing is mapped.
  char *data() const { return base; }

  // Mapped bytes.
  size_t size() const { return length; }

private:
  char *base = nullptr;
  size_t length = 0;
  int descriptor = -1;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_CPU_MAPPING_H

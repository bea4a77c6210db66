// SPDX-License-Identifier: Apache-2.0
//
// Zero-filled memory of the cpu device: private to the process, or shared by the processes of one host. Device arenas lie in it.

#ifndef ASHLAR_RUNTIME_DEVICE_CPU_MAPPING_H
#define ASHLAR_RUNTIME_DEVICE_CPU_MAPPING_H

#include "runtime/base/status.h"

#include <cstddef>

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

  // Makes an anonymous file of `bytes`, none of it backed yet, and maps it for sharing with whoever gets its descriptor. Refuses more than
  // the machine has available.
  static Status createShared(size_t bytes, Mapping &mapping);

  // Maps the first `bytes` of a file that createShared() made in another process. Takes over the descriptor; closes it on an error too.
  static Status attachShared(int descriptor, size_t bytes, Mapping &mapping);

  // Makes the kernel provide the pages of [begin, end) now, so that a lack of memory is an error here and not a SIGBUS later. Does nothing
  // for private memory.
  Status reserve(size_t begin, size_t end);

  // First byte; null when nothing is mapped.
  char *data() const { return base; }

  // The file behind a shared mapping; -1 behind a private one.
  int file() const { return descriptor; }

  // Mapped bytes.
  size_t size() const { return length; }

private:
  char *base = nullptr;
  size_t length = 0;
  int descriptor = -1;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_CPU_MAPPING_H

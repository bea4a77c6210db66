// SPDX-License-Identifier: Apache-2.0
//
// Shared memory between the processes of a communicator.

#include "test/emulator/nccl/segment.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ashlar::emulator {

size_t Ring::put(const std::byte *from, size_t size) {
  const uint64_t begin = written.load(std::memory_order_relaxed);
  size = std::min<size_t>(size, kRingBytes - (begin - read.load(std::memory_order_acquire)));
  for (size_t done = 0; done < size;) {
    const size_t at = (begin + done) % kRingBytes, part = std::min(size - done, kRingBytes - at);
    std::memcpy(bytes + at, from + done, part);
    done += part;
  }
  written.store(begin + size, std::memory_order_release);
  return size;
}

size_t Ring::take(std::byte *to, size_t size) {
  const uint64_t begin = read.load(std::memory_order_relaxed);
  size = std::min<size_t>(size, written.load(std::memory_order_acquire) - begin);
  for (size_t done = 0; done < size;) {
    const size_t at = (begin + done) % kRingBytes, part = std::min(size - done, kRingBytes - at);
    std::memcpy(to + done, bytes + at, part);
    done += part;
  }
  read.store(begin + size, std::memory_order_release);
  return size;
}

Segment *openSegment(const std::string &name) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) {
    return nullptr;
  }
  void *memory =
      ftruncate(file, sizeof(Segment)) == 0 ? mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Segment *>(memory);
}

void closeSegment(Segment *segment) {
  munmap(segment, sizeof(Segment));
}

void removeSegmentName(const std::string &name) {
  shm_unlink(name.c_str());
}

bool isAlive(int process) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *file = std::fopen(path, "r");
  if (!file) {
    return false;
  }
  char state = 'Z';
  const bool found = std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
  std::fclose(file);
  return found && state != 'Z' && state != 'X';
}

} // namespace ashlar::emulator

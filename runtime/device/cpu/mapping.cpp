// SPDX-License-Identifier: Apache-2.0
//
// Zero-filled memory of the cpu device, by mmap. Shared memory is an anonymous file (memfd), which no size of /dev/shm bounds.

#include "runtime/device/cpu/mapping.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {
namespace {

// From here on huge pages are worth asking for.
constexpr size_t kHugePageThreshold = size_t{4} << 20;

// Bytes as an error prints them: "12.0 KiB", "1.5 MiB".
std::string sizeText(size_t bytes) {
  double size = static_cast<double>(bytes);
  return size < 0x1p20 ? fmt::format("{:.1f} KiB", size * 0x1p-10) : fmt::format("{:.1f} MiB", size * 0x1p-20);
}

// What the kernel thinks it can give away; unlimited when it does not say.
size_t availableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  size_t kibibytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kibibytes) {
      return kibibytes << 10;
    }
  }
  return SIZE_MAX;
}

} // namespace

Mapping::Mapping(Mapping &&other) noexcept {
  *this = std::move(other);
}

Mapping &Mapping::operator=(Mapping &&other) noexcept {
  std::swap(base, other.base);
  std::swap(length, other.length);
  std::swap(descriptor, other.descriptor);
  return *this;
}

Mapping::~Mapping() {
  if (base != nullptr) {
    munmap(base, length);
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
}

Status Mapping::createPrivate(size_t bytes, Mapping &mapping) {
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return unavailable("cannot map {} of memory: {}; use more devices, or raise the limit of the process (ulimit -v)", sizeText(bytes),
                       std::strerror(errno));
  }
  if (bytes >= kHugePageThreshold) {
    madvise(base, bytes, MADV_HUGEPAGE);
  }
  Mapping result;
  result.base = static_cast<char *>(base);
  result.length = bytes;
  mapping = std::move(result);
  return Status();
}

Status Mapping::createShared(size_t bytes, Mapping &mapping) {
  size_t available = availableMemory();
  if (bytes > available) {
    return unavailable("the ranks of this host need {} of memory but {} is available; run fewer ranks on it", sizeText(bytes),
                       sizeText(available));
  }
  int descriptor = memfd_create("ashlar", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    return unavailable("cannot make {} of shared memory: {}", sizeText(bytes), std::strerror(errno));
  }
  return attachShared(descriptor, bytes, mapping);
}

Status Mapping::attachShared(int descriptor, size_t bytes, Mapping &mapping) {
  Mapping result;
  result.descriptor = descriptor;
  struct stat info;
  if (fstat(descriptor, &info) != 0 || static_cast<size_t>(info.st_size) < bytes) {
    return internal("shared memory of {} where {} are expected", sizeText(static_cast<size_t>(info.st_size)), sizeText(bytes));
  }
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) {
    return unavailable("cannot map {} of shared memory: {}", sizeText(bytes), std::strerror(errno));
  }
  result.base = static_cast<char *>(base);
  result.length = bytes;
  mapping = std::move(result);
  return Status();
}

Status Mapping::reserve(size_t begin, size_t end) {
  if (descriptor < 0 || end <= begin) {
    return Status();
  }
  int error = 0;
  do {
    error = posix_fallocate(descriptor, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  } while (error == EINTR);
  if (error == 0) {
    return Status();
  }
  return unavailable("cannot get {} of shared memory ({}); run fewer ranks on this host", sizeText(end - begin), std::strerror(error));
}

} // namespace ashlar::rt

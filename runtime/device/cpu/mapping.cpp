// SPDX-License-Identifier: Apache-2.0
//
// Zero-filled memory of the cpu device, by mmap. Shared segments are POSIX shared memory, so they count against /dev/shm.

#include "runtime/device/cpu/mapping.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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
    return unavailable("cannot map {} of memory: {}", sizeText(bytes), std::strerror(errno));
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

Status Mapping::createShared(const std::string &name, size_t bytes, Mapping &mapping) {
  Mapping result;
  result.descriptor = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (result.descriptor < 0 && errno == EEXIST) {
    shm_unlink(name.c_str());
    result.descriptor = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  }
  if (result.descriptor < 0) {
    return unavailable("cannot create the shared memory segment {}: {}", name, std::strerror(errno));
  }
  if (ftruncate(result.descriptor, static_cast<off_t>(bytes)) != 0) {
    shm_unlink(name.c_str());
    return unavailable("cannot size the shared memory segment {} to {}: {}", name, sizeText(bytes), std::strerror(errno));
  }
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, result.descriptor, 0);
  if (base == MAP_FAILED) {
    shm_unlink(name.c_str());
    return unavailable("cannot map {} of shared memory: {}", sizeText(bytes), std::strerror(errno));
  }
  result.base = static_cast<char *>(base);
  result.length = bytes;
  mapping = std::move(result);
  return Status();
}

Status Mapping::attachShared(const std::string &name, size_t bytes, Mapping &mapping, bool &found) {
  found = false;
  Mapping result;
  result.descriptor = shm_open(name.c_str(), O_RDWR, 0600);
  if (result.descriptor < 0) {
    if (errno == ENOENT) {
      return Status();
    }
    return unavailable("cannot open the shared memory segment {}: {}", name, std::strerror(errno));
  }
  struct stat info;
  if (fstat(result.descriptor, &info) != 0 || static_cast<size_t>(info.st_size) < bytes) {
    return Status();
  }
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, result.descriptor, 0);
  if (base == MAP_FAILED) {
    return unavailable("cannot map {} of shared memory: {}", sizeText(bytes), std::strerror(errno));
  }
  result.base = static_cast<char *>(base);
  result.length = bytes;
  mapping = std::move(result);
  found = true;
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
  struct statvfs space;
  std::string left = statvfs("/dev/shm", &space) == 0 ? sizeText(space.f_bavail * space.f_frsize) : "too little";
  return unavailable("the arena needs {} of shared memory but /dev/shm has {} left ({}); enlarge /dev/shm or run fewer "
                     "ranks on this host",
                     sizeText(end - begin), left, std::strerror(error));
}

void Mapping::unlinkShared(const std::string &name) {
  shm_unlink(name.c_str());
}

} // namespace ashlar::rt

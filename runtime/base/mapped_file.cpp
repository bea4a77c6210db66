// SPDX-License-Identifier: Apache-2.0
//
// Touching a page that a mapped file no longer has raises SIGBUS. The handler finds the region by a list that only grows, whose entries are
// used again, puts a page of zeros in the place and marks the region.

#include "runtime/base/mapped_file.h"

#include "runtime/abi/regular_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::rt {

// Where a file is mapped.
struct MappedRegion {
  std::atomic<char *> base{nullptr}; // null: the entry is free
  std::atomic<size_t> bytes{0};
  std::atomic<bool> isCut{false};
  MappedRegion *next = nullptr;
};

namespace {

std::atomic<MappedRegion *> regions{nullptr};
struct sigaction previousHandler;

void onSignal(int number, siginfo_t *info, void *context) {
  const uintptr_t pageBytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (MappedRegion *region = regions.load(); region != nullptr; region = region->next) {
    const auto base = reinterpret_cast<uintptr_t>(region->base.load());
    if (base == 0 || address < base || address - base >= region->bytes.load()) {
      continue;
    }
    region->isCut = true;
    void *page = reinterpret_cast<void *>(address / pageBytes * pageBytes);
    if (mmap(page, pageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
      return;
    }
  }
  // Not ours: what was there before, or the end.
  if ((previousHandler.sa_flags & SA_SIGINFO) != 0) {
    previousHandler.sa_sigaction(number, info, context);
    return;
  }
  std::signal(number, previousHandler.sa_handler == SIG_IGN ? SIG_DFL : previousHandler.sa_handler);
}

// Libraries set handlers of their own when they start, so this looks again for each file.
void setHandler() {
  struct sigaction action = {}, before = {};
  action.sa_sigaction = onSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &before);
  if ((before.sa_flags & SA_SIGINFO) == 0 || before.sa_sigaction != onSignal) {
    previousHandler = before;
  }
}

// Returns an entry for the region, with `base` set last: the handler reads it first.
MappedRegion *addRegion(char *base, size_t bytes) {
  for (MappedRegion *region = regions.load(); region != nullptr; region = region->next) {
    if (region->base.load() == nullptr) {
      region->bytes = bytes;
      region->isCut = false;
      region->base = base;
      return region;
    }
  }
  auto *region = new MappedRegion();
  region->bytes = bytes;
  region->base = base;
  region->next = regions.load();
  regions = region;
  return region;
}

// Returns the bytes of an open file, or SIZE_MAX, and when it was written last.
size_t statFile(int descriptor, struct timespec &written) {
  struct stat info = {};
  const bool isThere = fstat(descriptor, &info) == 0;
  written = info.st_mtim;
  return isThere ? static_cast<size_t>(info.st_size) : SIZE_MAX;
}

} // namespace

MappedFile::MappedFile(MappedFile &&other) noexcept {
  *this = std::move(other);
}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(region, other.region);
  std::swap(descriptor, other.descriptor);
  std::swap(written, other.written);
  std::swap(sample, other.sample);
  return *this;
}

MappedFile::~MappedFile() {
  if (region != nullptr) {
    char *base = region->base.exchange(nullptr);
    munmap(base, region->bytes);
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
}

Status MappedFile::open(const std::string &path, MappedFile &file, uint64_t mostBytes) {
  MappedFile result;
  result.path = path;
  const OpenedFile opened = openRegularFile(path, mostBytes);
  if (opened.descriptor < 0) {
    return unavailable("cannot open \"{}\": {}", path, opened.fault);
  }
  result.descriptor = opened.descriptor;
  statFile(result.descriptor, result.written);
  if (opened.bytes == 0) {
    return invalid("cannot open \"{}\": it is empty", path);
  }
  void *base = mmap(nullptr, opened.bytes, PROT_READ, MAP_PRIVATE, result.descriptor, 0);
  if (base == MAP_FAILED) {
    return unavailable("cannot map the {} bytes of \"{}\": {}; if it is a limit, raise it (ulimit -v)", opened.bytes, path,
                       std::strerror(errno));
  }
  setHandler();
  result.region = addRegion(static_cast<char *>(base), opened.bytes);
  result.sample = result.sampleHash();
  file = std::move(result);
  return Status();
}

const char *MappedFile::data() const {
  return region->base.load(std::memory_order_relaxed);
}

size_t MappedFile::size() const {
  return region->bytes.load(std::memory_order_relaxed);
}

uint64_t MappedFile::sampleHash() const {
  constexpr size_t kBlocks = 64, kBytes = 4096;
  const size_t bytes = std::min(size(), kBytes), blocks = std::min(kBlocks, (size() + kBytes - 1) / kBytes);
  const size_t last = size() - bytes, gaps = std::max<size_t>(blocks - 1, 1);
  uint64_t hash = 0;
  for (size_t block = 0; block < blocks; ++block) { // from the first bytes to the last ones; last * block may overflow
    const size_t at = last / gaps * block + last % gaps * block / gaps;
    hash = hash * 0x9e3779b97f4a7c15 + std::hash<std::string_view>()({data() + at, bytes});
  }
  return hash;
}

Status MappedFile::check() const {
  struct timespec time = {};
  const bool hasSize = statFile(descriptor, time) == size();
  const bool isTouched = time.tv_sec != written.tv_sec || time.tv_nsec != written.tv_nsec;
  const bool isSame = hasSize && (!isTouched || sampleHash() == sample);
  if (isSame && !region->isCut.load(std::memory_order_relaxed)) { // within its last page a file can be cut without a signal
    return Status();
  }
  return unavailable("\"{}\" had {} bytes when it was opened, and was changed since or cannot be read any more; leave files of data alone "
                     "during a run",
                     path, size());
}

} // namespace ashlar::rt

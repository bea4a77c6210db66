// SPDX-License-Identifier: Apache-2.0
//
// The counting malloc: glibc's own behind the public names.

#include "test/unit/data/allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<uint64_t> count{0};
std::atomic<size_t> mostBytes{SIZE_MAX};

} // namespace

namespace ashlar::test {

uint64_t allocations() {
  return count.load();
}

} // namespace ashlar::test

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ASHLAR_SANITIZER_MALLOC 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ASHLAR_SANITIZER_MALLOC 1
#endif

#ifdef ASHLAR_SANITIZER_MALLOC

bool ashlar::test::limitAllocations(size_t) {
  return false;
}

// The sanitizers have a malloc of their own, which calls this.
extern "C" void __sanitizer_malloc_hook(const volatile void *pointer, size_t bytes) {
  ++count;
}

#else

bool ashlar::test::limitAllocations(size_t bytes) {
  mostBytes = bytes;
  return true;
}

extern "C" {

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t number, size_t bytes);
void *__libc_realloc(void *pointer, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
  ++count;
  if (bytes > mostBytes) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
  ++count;
  return __libc_calloc(number, bytes);
}

void *realloc(void *pointer, size_t bytes) {
  ++count;
  return __libc_realloc(pointer, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **pointer, size_t alignment, size_t bytes) {
  ++count;
  *pointer = __libc_memalign(alignment, bytes);
  return *pointer ? 0 : ENOMEM;
}
}

#endif

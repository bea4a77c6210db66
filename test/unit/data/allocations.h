// SPDX-License-Identifier: Apache-2.0
//
// Counts the allocations of the process, for tests of "nothing is allocated after start", and lets them fail. A program that links
// allocations.cpp gets its own malloc.

#ifndef ASHLAR_TEST_UNIT_DATA_ALLOCATIONS_H
#define ASHLAR_TEST_UNIT_DATA_ALLOCATIONS_H

#include <cstddef>
#include <cstdint>

namespace ashlar::test {

// Returns the number of calls of malloc, calloc, realloc, memalign, aligned_alloc and posix_memalign so far, of all threads; operator new
// is among them.
uint64_t allocations();

// Lets malloc, and with it operator new, fail for more than `bytes` bytes, as under a limit on memory. Returns false, and does nothing,
// where a sanitizer has its own malloc.
bool limitAllocations(size_t bytes);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_DATA_ALLOCATIONS_H

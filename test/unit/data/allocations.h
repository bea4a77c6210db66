// SPDX-License-Identifier: Apache-2.0
//
// Counts the allocations of the process, for tests of "nothing is allocated after start". A program that links allocations.cpp gets its own
// malloc.

#ifndef ASHLAR_TEST_UNIT_DATA_ALLOCATIONS_H
#define ASHLAR_TEST_UNIT_DATA_ALLOCATIONS_H

#include <cstdint>

namespace ashlar::test {

// Returns the number of calls of malloc, calloc, realloc, memalign, aligned_alloc and posix_memalign so far, of all threads; operator new
// is among them.
uint64_t allocations();

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_DATA_ALLOCATIONS_H

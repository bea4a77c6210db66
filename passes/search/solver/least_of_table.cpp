// SPDX-License-Identifier: Apache-2.0
//
// Four rows at a time, in the registers of AVX2 where there are some.

#include "passes/search/solver/least_of_table.h"

#include <algorithm>

#if defined(__x86_64__)
#define ASHLAR_AVX2 __attribute__((target("avx2")))
#else
#define ASHLAR_AVX2
#endif

namespace ashlar::search {

namespace {

bool hasAvx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

constexpr size_t kRows = 4; // looked at together, so that what is added to a column is loaded once for all of them

template <size_t count>
[[gnu::always_inline]] inline void leastOfEach(const Cost *rows, const Cost *ofColumns, size_t columns, Cost *least) {
  Cost found[count];
  std::fill_n(found, count, kForbidden);
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < count; ++row) {
      found[row] = std::min(found[row], rows[row * columns + column] + ofColumns[column]);
    }
  }
  std::copy_n(found, count, least);
}

[[gnu::always_inline]] inline void leastOfRows(const Cost *table, const Cost *ofColumns, size_t rows, size_t columns, Cost *least) {
  size_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    leastOfEach<kRows>(table + row * columns, ofColumns, columns, least + row);
  }
  for (; row < rows; ++row) {
    leastOfEach<1>(table + row * columns, ofColumns, columns, least + row);
  }
}

template <size_t count> [[gnu::always_inline]] inline void lowerBy(const Cost *rows, const Cost *ofRows, size_t columns, Cost *least) {
  Cost added[count];
  std::copy_n(ofRows, count, added);
  for (size_t column = 0; column < columns; ++column) {
    Cost found = least[column];
    for (size_t row = 0; row < count; ++row) {
      found = std::min(found, rows[row * columns + column] + added[row]);
    }
    least[column] = found;
  }
}

[[gnu::always_inline]] inline void leastOfColumns(const Cost *table, const Cost *ofRows, size_t rows, size_t columns, Cost *least) {
  std::fill_n(least, columns, kForbidden);
  size_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    lowerBy<kRows>(table + row * columns, ofRows + row, columns, least);
  }
  for (; row < rows; ++row) {
    lowerBy<1>(table + row * columns, ofRows + row, columns, least);
  }
}

ASHLAR_AVX2 void leastOfRowsAvx2(const Cost *table, const Cost *ofColumns, size_t rows, size_t columns, Cost *least) {
  leastOfRows(table, ofColumns, rows, columns, least);
}

ASHLAR_AVX2 void leastOfColumnsAvx2(const Cost *table, const Cost *ofRows, size_t rows, size_t columns, Cost *least) {
  leastOfColumns(table, ofRows, rows, columns, least);
}

const bool isWide = hasAvx2();

} // namespace

void findLeastOfRows(const Cost *table, const Cost *ofColumns, size_t rows, size_t columns, Cost *least) {
  isWide ? leastOfRowsAvx2(table, ofColumns, rows, columns, least) : leastOfRows(table, ofColumns, rows, columns, least);
}

void findLeastOfColumns(const Cost *table, const Cost *ofRows, size_t rows, size_t columns, Cost *least) {
  isWide ? leastOfColumnsAvx2(table, ofRows, rows, columns, least) : leastOfColumns(table, ofRows, rows, columns, least);
}

} // namespace ashlar::search

// SPDX-License-Identifier: Apache-2.0
//
// The least of rows and columns, against one number after the other.

#include "passes/search/solver/least_of_table.h"
#include "test/unit/layout/random_program.h"

#include <catch2/catch.hpp>

#include <algorithm>

namespace ashlar::test::least_of_table_test {

using namespace search;
using Cost = search::Cost; // not that of dialects/support

TEST_CASE("search: the least of rows and columns is that of their numbers", "[search]") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const size_t rows = 1 + dice.roll(11), columns = 1 + dice.roll(11);
    auto numbers = [&](size_t count) {
      std::vector<Cost> costs(count);
      for (Cost &cost : costs) {
        cost = dice.roll(4) == 0 ? kForbidden : (Cost(dice.roll(1000)) - 500) << dice.roll(40); // beyond 32 bits
      }
      return costs;
    };
    const std::vector<Cost> table = numbers(rows * columns), ofRows = numbers(rows), ofColumns = numbers(columns);
    std::vector<Cost> byRow(rows, kForbidden), byColumn(columns, kForbidden);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) {
        byRow[row] = std::min(byRow[row], table[row * columns + column] + ofColumns[column]);
        byColumn[column] = std::min(byColumn[column], table[row * columns + column] + ofRows[row]);
      }
    }
    std::vector<Cost> least(rows);
    findLeastOfRows(table.data(), ofColumns.data(), rows, columns, least.data());
    CHECK(least == byRow);
    least.resize(columns);
    findLeastOfColumns(table.data(), ofRows.data(), rows, columns, least.data());
    CHECK(least == byColumn);
  }
}

} // namespace ashlar::test::least_of_table_test

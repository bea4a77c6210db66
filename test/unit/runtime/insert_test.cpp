// SPDX-License-Identifier: Apache-2.0
//
// Rows written into a tensor by the cpu target, against plain loops.

#include "runtime/execute/cpu/insert.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <numeric>
#include <vector>

namespace ashlar::test::insert_test {

using namespace ashlar::rt;

namespace {

// An insert of bytes, with its buffers.
struct Example {
  ashlar_rt_insert_desc desc;
  std::vector<char> rows, target;
  int64_t index;
  ashlar_rt_buffer buffers[3];
  ashlar_rt_instr instr;

  Example(const ashlar_rt_insert_desc &sizes, int64_t index, uint32_t indexType) : desc(sizes), index(index) {
    rows.resize(desc.outer * desc.rows * desc.row_bytes);
    target.resize(desc.outer * desc.places * desc.row_bytes);
    std::iota(rows.begin(), rows.end(), 100);
    std::iota(target.begin(), target.end(), 0);
    buffers[0] = {ASHLAR_RT_ARENA, ASHLAR_RT_I8, 0, rows.size()};
    buffers[1] = {ASHLAR_RT_ARENA, indexType, 0, indexType == ASHLAR_RT_I32 ? sizeof(int32_t) : sizeof(int64_t)};
    buffers[2] = {ASHLAR_RT_ARENA, ASHLAR_RT_I8, 0, target.size()};
    instr = {ASHLAR_RT_INSERT, "insert", 3, buffers, nullptr, &desc, 0};
  }
  Example(const Example &) = delete;
  Example &operator=(const Example &) = delete;

  std::vector<char> expected() const {
    std::vector<char> result = target;
    for (int64_t o = 0; o < desc.outer; ++o) {
      for (int64_t r = 0; r < desc.rows; ++r) {
        for (int64_t place = 0; place < desc.places; ++place) {
          if (place - r == index) {
            std::memcpy(&result[(o * desc.places + place) * desc.row_bytes], &rows[(o * desc.rows + r) * desc.row_bytes], desc.row_bytes);
          }
        }
      }
    }
    return result;
  }

  void run(ThreadPool &pool) {
    auto narrow = static_cast<int32_t>(index);
    void *const addresses[] = {rows.data(), buffers[1].dtype == ASHLAR_RT_I32 ? static_cast<void *>(&narrow) : &index, target.data()};
    runInsert(instr, addresses, pool);
  }

  std::string error() const { return std::string(checkInsert(instr).message()); }
};

} // namespace

TEST_CASE("insert: rows go to their places, and nothing else changes", "[runtime][insert]") {
  ThreadPool pool(2);
  for (const ashlar_rt_insert_desc &sizes : {ashlar_rt_insert_desc{1, 1, 4, 3}, {3, 2, 5, 8}, {2, 4, 2, 1}, {5, 0, 3, 4}, {2, 1, 0, 4}}) {
    for (const uint32_t type : {ASHLAR_RT_I32, ASHLAR_RT_I64}) {
      for (int64_t index = -5; index <= 6; ++index) {
        CAPTURE(sizes.outer, sizes.rows, sizes.places, sizes.row_bytes, type, index);
        Example example(sizes, index, type);
        REQUIRE(example.error().empty());
        const std::vector<char> expected = example.expected();
        example.run(pool);
        CHECK(example.target == expected);
      }
    }
  }
  for (const int64_t index : {INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX}) {
    Example example({2, 3, 4, 2}, index, ASHLAR_RT_I64);
    const std::vector<char> before = example.target;
    example.run(pool);
    CHECK(example.target == before);
  }
}

TEST_CASE("insert: threads share the outer elements", "[runtime][insert]") {
  ThreadPool pool(3);
  Example example({7, 2, 3, 200000}, 1, ASHLAR_RT_I64);
  const std::vector<char> expected = example.expected();
  example.run(pool);
  CHECK(example.target == expected);
}

TEST_CASE("insert: buffers that do not fit are refused", "[runtime][insert]") {
  using Catch::Contains;
  Example example({2, 1, 4, 8}, 0, ASHLAR_RT_I64);
  example.instr.num_buffers = 2;
  CHECK_THAT(example.error(), Contains("an insert has 2 buffers, not 3"));
  example.instr.num_buffers = 3;
  example.buffers[0].bytes = 8;
  CHECK_THAT(example.error(), Contains("2 x 1 rows of 8 bytes for 4 places have buffers of 8 and 64 bytes"));
  example.buffers[0].bytes = 16;
  example.buffers[2].bytes = 65;
  CHECK_THAT(example.error(), Contains("have buffers of 16 and 65 bytes"));
  example.buffers[2].bytes = 64;
  example.buffers[1].dtype = ASHLAR_RT_F32;
  CHECK_THAT(example.error(), Contains("an index of type 1 and 8 bytes"));
  example.buffers[1] = {ASHLAR_RT_ARENA, ASHLAR_RT_I32, 0, sizeof(int64_t)};
  CHECK_THAT(example.error(), Contains("an index of type 3 and 8 bytes"));
}

} // namespace ashlar::test::insert_test

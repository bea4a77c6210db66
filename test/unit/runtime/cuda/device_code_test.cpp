// SPDX-License-Identifier: Apache-2.0
//
// Which device code a GPU gets.

#include "runtime/device/cuda/device_code.h"

#include <catch2/catch.hpp>

#include <vector>

namespace ashlar::test::device_code_test {
namespace {

using namespace ashlar::rt;

// The arch that a chip gets of the list, or the error.
std::string choose(const std::vector<const char *> &archs, int major, int minor) {
  std::vector<ashlar_rt_device_code> codes;
  for (const char *arch : archs) {
    codes.push_back({arch, nullptr, 0});
  }
  ashlar_rt_image image = {};
  image.num_device_codes = static_cast<uint32_t>(codes.size());
  image.device_codes = codes.data();
  const ashlar_rt_device_code *code = nullptr;
  Status status = chooseDeviceCode(image, {major, minor}, "GPU 0 (X)", code);
  return status.ok() ? code->arch : status.message();
}

TEST_CASE("device code: machine code of the major version comes first, the highest minor version that runs", "[cuda][code]") {
  const std::vector<const char *> archs = {"sm_80", "sm_86", "sm_90", "compute_90"};
  CHECK(choose(archs, 8, 0) == "sm_80");
  CHECK(choose(archs, 8, 6) == "sm_86");
  CHECK(choose(archs, 8, 9) == "sm_86");
  CHECK(choose(archs, 9, 0) == "sm_90");
}

TEST_CASE("device code: a later chip compiles the latest PTX that it may", "[cuda][code]") {
  CHECK(choose({"sm_80", "sm_90", "compute_90"}, 10, 0) == "compute_90");
  CHECK(choose({"sm_90", "compute_80", "compute_90", "compute_120"}, 10, 3) == "compute_90");
  CHECK(choose({"compute_80", "sm_90"}, 9, 0) == "sm_90");
}

TEST_CASE("device code: code with a suffix runs on its own version alone", "[cuda][code]") {
  CHECK(choose({"sm_90", "sm_90a"}, 9, 0) == "sm_90");
  CHECK(choose({"sm_100a", "compute_90"}, 10, 0) == "sm_100a");
  CHECK(choose({"sm_100a", "compute_90"}, 10, 3) == "compute_90");
}

TEST_CASE("device code: a chip that none runs on is told with what there is", "[cuda][code]") {
  CHECK(choose({"sm_80", "compute_90"}, 7, 5) ==
        "GPU 0 (X) has compute capability 7.5 but this program has code for sm_80, compute_90; compile it with --gpu-arch sm_75");
  CHECK(choose({"sm_90"}, 10, 0) ==
        "GPU 0 (X) has compute capability 10.0 but this program has code for sm_90; compile it with --gpu-arch sm_100");
  CHECK_THAT(choose({}, 9, 0), Catch::Contains("has code for no chip"));
  CHECK_THAT(choose({"gfx90a"}, 9, 0), Catch::Contains("which is no chip"));
}

} // namespace

} // namespace ashlar::test::device_code_test

// SPDX-License-Identifier: Apache-2.0
//
// Compiled programs of the cuda target: what can be read back of them, on the emulator, and what may run beside their collectives.

#include "test/unit/data/temporary_folder.h"
#include "test/unit/execution/loaded_run.h"

#include "runtime/execute/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

namespace ashlar::test::cuda_loaded_test {
namespace {

// Counts the pairs of a collective and another instruction of which neither has to wait for the other, directly or not. With
// `guesses`, kernels count as writing all their buffers.
int countOverlaps(ashlar_rt_program program, bool guesses) {
  std::vector<ashlar_rt_instr> instrs(program.instrs, program.instrs + program.num_instrs);
  const std::vector<uint32_t> everything(64, ASHLAR_RT_READ | ASHLAR_RT_WRITE);
  std::vector<bool> communicates;
  for (ashlar_rt_instr &instr : instrs) {
    REQUIRE(instr.num_buffers <= everything.size());
    instr.accesses = guesses && instr.kind == ASHLAR_RT_KERNEL ? everything.data() : instr.accesses;
    bool isCollective = instr.kind == ASHLAR_RT_COLLECTIVE;
    communicates.push_back(isCollective && static_cast<const ashlar_rt_collective_desc *>(instr.desc)->kind != ASHLAR_RT_SLICE);
  }
  program.instrs = instrs.data();
  std::vector<rt::Placement> placements = rt::schedule(program, communicates);
  int overlaps = 0, last[2] = {-1, -1};                // the last instruction of each stream
  std::vector<std::vector<bool>> after(instrs.size()); // after[i][k]: i runs after k
  for (int i = 0; i < static_cast<int>(instrs.size()); ++i) {
    after[i].assign(instrs.size(), false);
    for (int before : {last[communicates[i]], placements[i].waitsFor}) {
      for (int k = 0; before >= 0 && k <= before; ++k) {
        after[i][k] = after[i][k] || k == before || after[before][k];
      }
    }
    for (int k = 0; k < i; ++k) {
      overlaps += communicates[i] != communicates[k] && !after[i][k];
    }
    last[communicates[i]] = i;
  }
  return overlaps;
}

} // namespace

TEST_CASE("read: every tensor holds its number after every program, cuda", "[loaded][read][cuda]") {
  test::checkReads("cuda", /*trains=*/true);
  test::checkReads("cuda", /*trains=*/false);
}

// Backward, each of the four row-split products of the two layers gathers the gradient of its result, while a kernel sums that gradient for
// the bias: 17 pairs instead of 13.
TEST_CASE("schedule: kernels that read what is gathered run beside the gathers", "[loaded][cuda][schedule]") {
  test::TemporaryFolder folder;
  REQUIRE(std::system(("cd " + folder.path() + " && " ASHLAR_ZOO " transformer -o model.onnx").c_str()) == 0);
  const ashlar_rt_image *image = test::compileAndLoad(folder.path(), "model.onnx --job " ASHLAR_JOBS
                                                                     "/transformer_sequence_parallel.txtpb --target cuda --gpu-arch sm_90");
  const ashlar_rt_variant &variant = image->variants[0];
  const ashlar_rt_program *step = std::find_if(variant.programs, variant.programs + variant.num_programs,
                                               [](const ashlar_rt_program &one) { return one.id.role == ASHLAR_RT_TRAIN_STEP; });
  REQUIRE(step != variant.programs + variant.num_programs);
  int guessed = countOverlaps(*step, /*guesses=*/true), declared = countOverlaps(*step, /*guesses=*/false);
  INFO(guessed << " pairs when kernels count as writing everything, " << declared << " as they say");
  CHECK(guessed > 0);
  CHECK(declared >= guessed + 4);
}

} // namespace ashlar::test::cuda_loaded_test

// SPDX-License-Identifier: Apache-2.0
//
// A compiled program without a compiler: toy_program train|forward RANKS [options of the program], or
// toy_program pipeline STAGESxDEVICES[:gpipe][:slow=STAGE][:sleep=US][:bytes=BYTES] [options of the program].

#include "test/unit/runtime/toy_pipeline.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s train|forward RANKS [options], or pipeline STAGESxDEVICES [options]\n", argv[0]);
    return 2;
  }
  auto ranks = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  auto toy = std::strcmp(argv[1], "train") == 0      ? ashlar::test::makeToyTraining(ranks)
             : std::strcmp(argv[1], "pipeline") == 0 ? ashlar::test::makeToyPipeline(ashlar::test::parseToyPipeline(argv[2]))
                                                     : ashlar::test::makeToyForward(ranks);
  argv[2] = argv[0];
  return ashlar_rt_main(&toy->image(), argc - 2, argv + 2);
}

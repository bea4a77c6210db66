// SPDX-License-Identifier: Apache-2.0
//
// Runs a compiled program with timed waits in the place of its kernels: the order of a step, the slots and the messages between stages are
// those of the compiler, and a stage takes the same time whether it has a core or not. For measuring what an order is worth where there are
// fewer cores than ranks. Linked ahead of the runtime with -Wl,--wrap=ashlar_rt_main. ASHLAR_TIMED_US="forward=10000,0:forward=5000" says
// how long programs wait, in microseconds, and that of stage 0 in particular; all others that a step runs do nothing. Numbers mean nothing
// then.

#include "runtime/abi/ashlar_rt.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <time.h>

extern "C" int __real_ashlar_rt_main(const ashlar_rt_image *image, int argc, char **argv);

namespace {

// A kernel has no place for a number, so there is one for each program of each stage.
constexpr size_t kStages = 8, kPrograms = 16;
constexpr size_t kKernelCount = kStages * kPrograms;
std::array<int64_t, kKernelCount> waits; // ns

template <size_t kernel> void timedWait(void *const *, int64_t, int64_t) {
  timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const int64_t end = until.tv_nsec + waits[kernel];
  until.tv_sec += end / 1000000000;
  until.tv_nsec = end % 1000000000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

template <size_t... kernels> constexpr std::array<ashlar_rt_kernel_fn, kKernelCount> makeKernels(std::index_sequence<kernels...>) {
  return {timedWait<kernels>...};
}
constexpr std::array<ashlar_rt_kernel_fn, kKernelCount> kKernels = makeKernels(std::make_index_sequence<kKernelCount>());

// Returns the microseconds that `text` gives a name; -1: none.
int64_t microsecondsOf(const char *text, const std::string &name) {
  const char *const program = name.c_str();
  const size_t length = name.size();
  for (const char *at = text; at != nullptr; at = std::strchr(at, ',')) {
    at += *at == ',' ? 1 : 0;
    if (std::strncmp(at, program, length) == 0 && at[length] == '=') {
      return std::strtoll(at + length + 1, nullptr, 10);
    }
  }
  return -1;
}

// What the tables of the image become. Lives until the process ends.
struct TimedImage {
  std::deque<ashlar_rt_kernel_desc> kernels;
  std::deque<ashlar_rt_instr> instrs;
  std::deque<std::vector<ashlar_rt_program>> programs;
  std::vector<ashlar_rt_variant> variants;
  ashlar_rt_image image;
};

bool isInOrder(const ashlar_rt_variant &variant, uint32_t program) {
  for (uint32_t i = 0; i < variant.order.num_runs; ++i) {
    if (variant.order.runs[i].program == program) {
      return true;
    }
  }
  return false;
}

void replaceKernels(const char *text, TimedImage &timed) {
  for (ashlar_rt_variant &variant : timed.variants) {
    timed.programs.emplace_back(variant.programs, variant.programs + variant.num_programs);
    for (uint32_t i = 0; i < variant.num_programs; ++i) {
      ashlar_rt_program &program = timed.programs.back()[i];
      if (!isInOrder(variant, i)) {
        continue;
      }
      const int64_t ofStage = microsecondsOf(text, std::to_string(variant.stage) + ":" + program.name);
      const int64_t microseconds = ofStage >= 0 ? ofStage : microsecondsOf(text, program.name);
      program.num_instrs = microseconds < 0 ? 0 : 1;
      program.predicted_ns = microseconds < 0 ? 0 : static_cast<uint64_t>(1000 * microseconds);
      program.other_ps = 1000 * program.predicted_ns;
      const size_t kernel = variant.stage * kPrograms + i;
      waits[kernel] = 1000 * microseconds;
      timed.kernels.push_back({kKernels[kernel], nullptr, /*extent=*/1, /*grain=*/1});
      timed.instrs.push_back({ASHLAR_RT_KERNEL, "timed wait", 0, nullptr, nullptr, &timed.kernels.back()});
      program.instrs = &timed.instrs.back();
    }
    variant.programs = timed.programs.back().data();
  }
}

} // namespace

extern "C" int __wrap_ashlar_rt_main(const ashlar_rt_image *image, int argc, char **argv) {
  const char *text = std::getenv("ASHLAR_TIMED_US");
  static TimedImage timed;
  timed.image = *image;
  timed.variants.assign(image->variants, image->variants + image->num_variants);
  timed.image.variants = timed.variants.data();
  for (const ashlar_rt_variant &variant : timed.variants) {
    if (text == nullptr || variant.num_programs > kPrograms || variant.stage >= kStages) {
      std::fprintf(stderr, "error: ASHLAR_TIMED_US is not set, or there are more than %zu stages of %zu programs\n", kStages, kPrograms);
      return 2;
    }
  }
  replaceKernels(text, timed);
  return __real_ashlar_rt_main(&timed.image, argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
//
// Runs the programs of one variant on the devices of this process. Every operand is turned into an address once; a run is a tight loop
// over resolved steps that allocates nothing.

#ifndef ASHLAR_RUNTIME_LAUNCH_EXECUTOR_H
#define ASHLAR_RUNTIME_LAUNCH_EXECUTOR_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/kernels/cpu/gemm.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace ashlar::rt {

// One program, resolved.
class Program;

// Owns the resolved programs of a variant.
class Executor {
public:
  Executor();
  ~Executor();

  // Resolves all programs and writes the mesh coordinates into the arenas. All arguments outlive the executor. `profile`: measure every
  // instruction.
  Status create(const ashlar_rt_image &image, const ashlar_rt_variant &variant, Communicator &communicator, ThreadPool &pool, bool profile);

  // Returns the program of that name; null when the image has none.
  Program *find(const std::string &name);

  // Runs the program once on all devices of this process.
  Status run(Program &program);

  // Returns the tensor of that name; null when the variant has none.
  const ashlar_rt_tensor *tensor(const std::string &name) const;

  // Address of a tensor on this process' device number `device`.
  char *address(const ashlar_rt_tensor &tensor, int device) const;

  // Returns the time spent per instruction name, the `top` most expensive first, as a table. Assumes profile.
  std::string profileTable(size_t top) const;

private:
  Status resolve(const ashlar_rt_program &source, Program &program);
  Status resolveBuffers(const ashlar_rt_instr &instr, void **&addresses);

  const ashlar_rt_image *image = nullptr;
  const ashlar_rt_variant *variant = nullptr;
  Communicator *communicator = nullptr;
  ThreadPool *pool = nullptr;
  bool profile = false;
  int devices = 0;
  std::deque<Program> programs;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_LAUNCH_EXECUTOR_H

// SPDX-License-Identifier: Apache-2.0
//
// Runs the work of all streams. Queued work is not run at once: it waits until the program synchronises or asks, or has been quiet for a
// moment. Of the tasks that may run, a random one runs next, so an order that nobody asked for sooner or later is not kept.
//
// State: tasks that wait for others (they know each other by counts), tasks that are ready, and tasks that have begun but wait for another
// process. One lock guards all of it and everything else of the emulator; tasks run under it.

#ifndef ASHLAR_TEST_EMULATOR_DRIVER_ENGINE_H
#define ASHLAR_TEST_EMULATOR_DRIVER_ENGINE_H

#include "test/emulator/ptx/memory.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace ashlar::emulator {

// Does some of a task; returns whether it is finished. Throws Fault.
using Step = std::function<bool()>;

// Work that can be queued any number of times: makes the step of one run.
struct Work {
  std::function<Step()> start;
  // Works with one key run in the order in which they are queued, whatever their streams: the collectives of a communicator.
  const void *serial = nullptr;
};

// Returns work that is finished after one call of f.
Work once(std::function<void()> f);

struct Task {
  Work work;
  Step step; // of a task that has begun
  std::vector<std::shared_ptr<Task>> next;
  unsigned waitsFor = 0;
  bool done = false;
  std::chrono::steady_clock::time_point doneAt;
};
using TaskPtr = std::shared_ptr<Task>;

class Engine {
public:
  static Engine &get();

  // Held by every entry of the libraries.
  std::recursive_mutex lock;

  // Queues work behind the given tasks (null ones do not count). After a fault nothing is run any more.
  TaskPtr submit(Work work, const std::vector<TaskPtr> &after);

  // Runs work until the task is done. Lets go of the lock while it waits for other processes.
  void wait(const TaskPtr &task);
  // Runs a few ready tasks, and tasks that wait for other processes.
  void progress();

  // The first fault, or null.
  const Fault *fault() const { return firstFault.get(); }
  // A random number.
  uint64_t draw() { return random(); }

private:
  Engine();
  bool runOne();
  bool pollBegun();
  void run(const TaskPtr &task);
  void finish(const TaskPtr &task);
  void runBehindQuietHosts();

  std::mt19937_64 random;
  std::vector<TaskPtr> ready;
  std::vector<TaskPtr> begun;
  std::map<const void *, TaskPtr> serialTails;
  const bool sharesQueue; // work runs in the order in which it is queued
  TaskPtr queueTail;
  std::unique_ptr<Fault> firstFault;
  bool hostCame = false; // since the background last looked
};

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_DRIVER_ENGINE_H

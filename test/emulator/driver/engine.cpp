// SPDX-License-Identifier: Apache-2.0
//
// A random legal order of tasks.

#include "test/emulator/driver/engine.h"

#include "test/emulator/driver/settings.h"

#include <algorithm>
#include <thread>

namespace ashlar::emulator {
namespace {

constexpr std::chrono::milliseconds kQuiet{2};
constexpr std::chrono::microseconds kPause{50}; // between looks at other processes

} // namespace

Work once(std::function<void()> f) {
  return {[f = std::move(f)]() -> Step {
    return [f] {
      f();
      return true;
    };
  }};
}

Engine &Engine::get() {
  static auto *engine = new Engine; // never destroyed: a program may end with work in its queues
  return *engine;
}

Engine::Engine() : random(setting("SEED", 1)), sharesQueue(setting("QUEUES", 0) == 1) {
  std::thread([this] { runBehindQuietHosts(); }).detach();
}

// A device goes on when the host does something else.
void Engine::runBehindQuietHosts() {
  for (;;) {
    std::this_thread::sleep_for(kQuiet);
    const std::lock_guard<std::recursive_mutex> guard(lock);
    if (!hostCame) {
      progress();
    }
    hostCame = false;
  }
}

TaskPtr Engine::submit(Work work, const std::vector<TaskPtr> &after) {
  auto task = std::make_shared<Task>();
  task->work = std::move(work);
  if (firstFault) {
    task->done = true;
    return task;
  }
  std::vector<TaskPtr> all = after;
  if (task->work.serial) {
    TaskPtr &tail = serialTails[task->work.serial];
    all.push_back(tail);
    tail = task;
  }
  if (sharesQueue) {
    all.push_back(queueTail);
    queueTail = task;
  }
  for (const TaskPtr &other : all) {
    if (other && !other->done) {
      other->next.push_back(task);
      ++task->waitsFor;
    }
  }
  if (task->waitsFor == 0) {
    ready.push_back(task);
  }
  hostCame = true;
  return task;
}

void Engine::finish(const TaskPtr &task) {
  task->done = true;
  task->doneAt = std::chrono::steady_clock::now();
  task->step = nullptr;
  task->work.start = nullptr; // and what it holds
  for (const TaskPtr &next : task->next) {
    if (--next->waitsFor == 0) {
      ready.push_back(next);
    }
  }
  task->next.clear();
}

void Engine::run(const TaskPtr &task) {
  try {
    if (!task->step) {
      task->step = task->work.start();
    }
    if (firstFault || task->step()) {
      finish(task);
    } else {
      begun.push_back(task);
    }
  } catch (const Fault &fault) {
    say(fault.what());
    firstFault = std::make_unique<Fault>(fault);
    finish(task);
  }
}

bool Engine::runOne() {
  if (ready.empty()) {
    return false;
  }
  std::swap(ready[random() % ready.size()], ready.back());
  const TaskPtr task = ready.back();
  ready.pop_back();
  if (firstFault) {
    finish(task);
  } else {
    run(task);
  }
  return true;
}

bool Engine::pollBegun() {
  std::vector<TaskPtr> tasks;
  std::swap(tasks, begun);
  bool finished = false;
  for (const TaskPtr &task : tasks) {
    if (firstFault) {
      finish(task);
    } else {
      run(task);
    }
    finished |= task->done;
  }
  return finished;
}

void Engine::progress() {
  hostCame = true;
  pollBegun();
  for (uint64_t count = 1 + random() % 4; count != 0 && runOne(); --count) {
  }
}

void Engine::wait(const TaskPtr &task) {
  while (task && !task->done) {
    hostCame = true;
    if (!runOne() && !pollBegun()) {
      lock.unlock();
      std::this_thread::sleep_for(kPause);
      lock.lock();
    }
  }
}

} // namespace ashlar::emulator

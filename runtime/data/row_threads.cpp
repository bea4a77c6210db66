// SPDX-License-Identifier: Apache-2.0
//
// A run is a new value of `runs`. Every member takes part in every run, if only to see that no share is left, so that the caller knows that
// nobody looks at a run that is over.

#include "runtime/data/row_threads.h"

#include <system_error>

namespace ashlar::rt {

RowThreads::RowThreads(size_t threads) {
  try {
    for (size_t thread = 1; thread < threads; ++thread) {
      members.emplace_back([this, thread] { work(thread); });
    }
  } catch (const std::system_error &) {
    stop();
    throw;
  }
}

RowThreads::~RowThreads() {
  stop();
}

void RowThreads::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  for (std::thread &member : members) {
    member.join();
  }
}

void RowThreads::run(int64_t count, Function what, void *with) {
  const bool alone = members.empty() || count <= 1;
  shares = count;
  function = what;
  context = with;
  nextShare.store(0, std::memory_order_relaxed);
  if (!alone) {
    std::lock_guard<std::mutex> lock(mutex);
    ++runs;
    busy = members.size();
  }
  if (!alone) {
    changed.notify_all();
  }
  takeShares(/*thread=*/0);
  if (!alone) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return busy == 0; });
  }
}

void RowThreads::work(size_t thread) {
  std::unique_lock<std::mutex> lock(mutex);
  for (uint64_t seen = 0;; ++seen) {
    changed.wait(lock, [&] { return stopping || runs != seen; });
    if (stopping) {
      return;
    }
    lock.unlock();
    takeShares(thread);
    lock.lock();
    if (--busy == 0) {
      changed.notify_all();
    }
  }
}

void RowThreads::takeShares(size_t thread) {
  for (int64_t share; (share = nextShare.fetch_add(1, std::memory_order_relaxed)) < shares;) {
    function(context, share, thread);
  }
}

} // namespace ashlar::rt

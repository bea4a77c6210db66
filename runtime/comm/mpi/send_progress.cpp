// SPDX-License-Identifier: Apache-2.0
//
// Tests what is under way, and naps: the cores are for kernels.

#include "runtime/comm/mpi/send_progress.h"

#include "runtime/comm/progress_thread.h"
#include "runtime/comm/wait.h"

#include <algorithm>
#include <system_error>

namespace ashlar::rt {

void SendProgress::begin(const MpiLibrary &library, size_t messages) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    mpi = &library;
    underWay.reserve(messages);
  }
  if (thread.joinable()) {
    return;
  }
  try {
    thread = std::thread([this] { loop(); });
  } catch (const std::system_error &) {
    mpi = nullptr;
  }
}

void SendProgress::add(Requests &requests) {
  if (mpi == nullptr) {
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    underWay.push_back(&requests);
  }
  hasWork.notify_one();
}

void SendProgress::remove(Requests &requests) {
  if (mpi != nullptr) {
    std::lock_guard<std::mutex> lock(mutex);
    underWay.erase(std::remove(underWay.begin(), underWay.end(), &requests), underWay.end());
  }
}

void SendProgress::stop() {
  if (!thread.joinable()) {
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    ends = true;
  }
  hasWork.notify_one();
  thread.join();
}

void SendProgress::loop() {
  runBeside();
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    hasWork.wait(lock, [&] { return ends || !underWay.empty(); });
    if (ends) {
      return;
    }
    auto isDone = [&](Requests *requests) {
      int done = 0;
      const int error = mpi->MPI_Testall(static_cast<int>(requests->size()), requests->data(), &done, MPI_STATUSES_IGNORE);
      if (error == MPI_SUCCESS && done != 0) {
        requests->clear();
      }
      return error != MPI_SUCCESS || done != 0; // of a failure the one that waits for it hears
    };
    underWay.erase(std::remove_if(underWay.begin(), underWay.end(), isDone), underWay.end());
    lock.unlock();
    nap(kNapBesideNs);
    lock.lock();
  }
}

} // namespace ashlar::rt

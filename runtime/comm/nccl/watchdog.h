// SPDX-License-Identifier: Apache-2.0
//
// Ensures that a job on several GPUs never hangs. A thread checks twenty times a second whether a rank of this host ended, whether a rank
// gave up, whether NCCL reports an error, and whether collectives make progress. Code that waits for the device calls check(); when the
// main thread does not because it is stuck inside a library, the watchdog itself reports the failure and ends the process. It also answers
// SIGTERM, by which mpirun ends a job that lost a rank: with the name of that rank and of the collective that waits for it.

#ifndef ASHLAR_RUNTIME_COMM_NCCL_WATCHDOG_H
#define ASHLAR_RUNTIME_COMM_NCCL_WATCHDOG_H

#include "runtime/comm/nccl/device_seat.h"
#include "runtime/comm/nccl/stage_links.h"

#include <atomic>
#include <mutex>
#include <thread>

namespace ashlar::rt {

// The main thread starts it, sets its state, and stops it; all other members belong to the thread.
class Watchdog final : public Interrupt {
public:
  // `fail` prints a failure and ends the other ranks. `links`: null where there is one stage. `deviceWord`: four bytes of device memory.
  // All outlive the watchdog.
  Watchdog(CudaDevice &device, const Communicator &host, const DeviceSeat &seat, const StageLinks *links, CUdeviceptr deviceWord,
           std::function<void(const Status &)> fail)
      : device(device), host(host), seat(seat), links(links), fail(std::move(fail)), deviceWord(deviceWord) {}
  ~Watchdog() override { stop(); }

  // Starts the thread. Assumes that the device is open.
  Status start();

  // Ends the thread. A rank that ends from now on is not missed.
  void stop();

  // The failure that was found, or ok.
  Status check() override;

  // The numbers of collectives and messages here: collectives as at the seat, messages after them.
  size_t ofMessage(size_t message) const { return seat.size() + message; }

  // From now to leave(), the main thread is in a call that waits for other ranks: collective or message `number`, or kConnecting.
  void enter(size_t number);
  void leave() { busy = kIdle; }

  // Puts a note on the stream that collective or message `number` begins.
  Status note(size_t number, CUstream stream) const;

  // Another run was started; `finished` happens at its end.
  void started(CUevent finished);

  // The state of the main thread while it makes communicators.
  static constexpr size_t kConnecting = ~size_t{0} - 1;

private:
  static constexpr size_t kIdle = ~size_t{0};

  void run();
  Status look();
  std::string where() const;
  std::string describe(const char *doing, size_t number) const;

  CudaDevice &device;
  const Communicator &host;
  const DeviceSeat &seat;
  const StageLinks *links;
  std::function<void(const Status &)> fail;

  // Written by the device: the number of the collective or message that began last, plus 1. It fills a word of its own and copies that to
  // page-locked memory, since nothing promises that a graph may fill memory of the host.
  CUdeviceptr deviceWord = 0;
  volatile uint32_t *word = nullptr;

  // Set by the main thread.
  std::atomic<size_t> busy{kIdle};
  std::atomic<uint64_t> runs{0};
  std::atomic<CUevent> last{nullptr};
  std::atomic<bool> stopping{false};
  std::atomic<bool> noticed{false}; // check() returned the failure

  // The last state that look() saw, and since when.
  size_t seenBusy = kIdle;
  uint64_t seenRuns = 0;
  uint32_t seenWord = 0;
  double since = 0;

  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status failure; // under `mutex`
  std::thread thread;
  void (*handler)(int) = nullptr; // of SIGTERM, before start()
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_NCCL_WATCHDOG_H

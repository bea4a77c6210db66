// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a job as threads of a test, with real sockets on the loopback interface between them.

#ifndef ASHLAR_TEST_UNIT_RUNTIME_TCP_RANKS_H
#define ASHLAR_TEST_UNIT_RUNTIME_TCP_RANKS_H

#include "runtime/comm/tcp/tcp_transport.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace ashlar::test {

constexpr const char *kLoopback = "127.0.0.0/8";

// The texts of all ranks, shared by their threads.
class Board {
public:
  explicit Board(int ranks) : texts(static_cast<size_t>(ranks)) {}

  std::vector<std::string> exchange(int rank, const std::string &mine) {
    std::unique_lock<std::mutex> lock(mutex);
    texts[static_cast<size_t>(rank)] = mine;
    if (++arrived == static_cast<int>(texts.size()) && onComplete) {
      onComplete(texts);
    }
    changed.notify_all();
    changed.wait(lock, [&] { return arrived >= static_cast<int>(texts.size()); });
    return texts;
  }

  // Called once all texts are there, before the ranks have them.
  std::function<void(const std::vector<std::string> &)> onComplete;

private:
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> texts;
  int arrived = 0;
};

// The address book of one rank.
class BoardBook final : public rt::AddressBook {
public:
  BoardBook(Board &board, int rank) : board(board), rank(rank) {}

  rt::Status exchange(const std::string &mine, std::vector<std::string> &all) override {
    all = board.exchange(rank, mine);
    return rt::Status();
  }

private:
  Board &board;
  int rank;
};

// Runs `body` as each rank, on a thread of its own, with a transport that was started; returns the first failure.
inline rt::Status runRanks(Board &board, int ranks, const std::function<rt::Status(int rank, rt::Transport &transport)> &body) {
  std::vector<rt::Status> found(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      BoardBook book(board, rank);
      rt::TcpTransport transport(rank, ranks);
      rt::Status status = transport.start(book, /*machine=*/static_cast<uint64_t>(rank), kLoopback);
      found[static_cast<size_t>(rank)] = status.ok() ? body(rank, transport) : status;
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  rt::Status first;
  for (const rt::Status &status : found) {
    first.update(status);
  }
  return first;
}

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_RUNTIME_TCP_RANKS_H

// SPDX-License-Identifier: Apache-2.0
//
// Words between the ranks of a job that do not go through its streams: whom a rank waits for, and that it gave up. They are datagrams,
// since the rank that all wait for may be stopped, and must not be in the way; lost ones are repeated. Each has a proof by the key of the
// job and a number that rises, so that forged and replayed ones are ignored.

#ifndef ASHLAR_RUNTIME_COMM_TCP_WORDS_H
#define ASHLAR_RUNTIME_COMM_TCP_WORDS_H

#include "runtime/comm/tcp/addresses.h"
#include "runtime/comm/tcp/socket.h"
#include "runtime/comm/tcp/wait_reports.h"

#include <mutex>
#include <vector>

namespace ashlar::rt {

// A word, as it is sent.
struct Word {
  uint64_t number; // rises with each word of a rank
  int32_t rank;    // that sends it
  int32_t whom;    // that it waits for; WaitReports::kNobody
  uint8_t speaks;  // whether it would report that to the user
  uint8_t gaveUp;  // whether it ends, and the job with it
  uint8_t unused[6];
  Digest proof; // of all above
};

// Returns the proof of a word.
Digest prove(const Key &key, const Word &word);

// Any thread may call it.
class Words {
public:
  Words(int rank, int ranks) : self(rank), reports(rank, ranks), heard(static_cast<size_t>(ranks)) {}

  // Opens the socket, at the address or at all addresses of this host where it is null. Returns its port.
  Status open(const Address *address, uint16_t &port);

  // Lets it send to the ranks of the cards, with the key of the job.
  void begin(const Key &jobKey, const std::vector<Card> &cards);

  // Reports to all other ranks that this one waits for `whom` from now on, WaitReports::kNobody: for none. To be called again and again
  // while it holds; it is sent once a second.
  void tellWait(int whom, int speaks);

  // Reports to all other ranks that this one gives up.
  void tellEnd();

  // Takes in the words of others. Returns whether one of them gave up.
  bool listen();

  // As in WaitReports, now.
  int culprit();
  bool isFirst();

private:
  void send(int whom, int speaks, bool gaveUp);

  struct Target {
    sockaddr_storage name;
    socklen_t length;
  };

  std::mutex mutex; // held around all below
  int self;
  Key key = {};
  Socket socket;
  int family = AF_INET6;
  std::vector<Target> targets; // by rank
  WaitReports reports;
  std::vector<uint64_t> heard; // the last number of each rank
  bool someGaveUp = false;
  uint64_t number = 0;
  int lastWhom = WaitReports::kNobody; // what was sent last, and when
  int lastSpeaks = 0;
  double lastTime = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_WORDS_H

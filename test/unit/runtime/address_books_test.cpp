// SPDX-License-Identifier: Apache-2.0
//
// How ranks exchange addresses: over PMI2 with a server as srun and MPICH's mpiexec have it, and with rank 0 as torchrun's variables name
// it.

#include "runtime/base/clock.h"
#include "runtime/comm/launch/master_book.h"
#include "runtime/comm/launch/pmi2.h"

#include <catch2/catch.hpp>

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace ashlar::test::address_books_test {

using namespace ashlar::rt;

namespace {

// A variable of the environment, set for a while.
class Setting {
public:
  Setting(const char *name, const std::string &value) : name(name) { setenv(name, value.c_str(), /*overwrite=*/1); }
  ~Setting() { unsetenv(name); }

private:
  const char *name;
};

// Runs `body` as each rank, on a thread of its own.
void runRanks(int ranks, const std::function<void(int rank)> &body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back(body, rank);
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

// The server side of PMI2 for all ranks of a job, one thread a rank. Messages are written out here as the protocol has them.
class Pmi2Server {
public:
  Pmi2Server(int ranks, std::string greeting) : ranks(ranks), greeting(std::move(greeting)) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::array<int, 2> pair;
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) == 0);
      ends.push_back(pair[1]);
      threads.emplace_back([this, rank, fd = pair[0]] { serve(rank, fd); });
    }
  }
  ~Pmi2Server() {
    for (int fd : ends) {
      shutdown(fd, SHUT_RDWR);
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    for (int fd : ends) {
      close(fd);
    }
  }

  std::vector<int> ends; // the ranks' descriptors
  int finalized = 0;

private:
  void serve(int rank, int fd) {
    std::string line;
    for (char byte = 0; byte != '\n' && recv(fd, &byte, 1, 0) == 1;) {
      line += byte;
    }
    if (line == "cmd=init pmi_version=2 pmi_subversion=0\n") {
      send(fd, greeting.data(), greeting.size(), MSG_NOSIGNAL);
    }
    for (;;) {
      char digits[7] = {};
      if (recv(fd, digits, 6, MSG_WAITALL) != 6) {
        break;
      }
      std::string text(static_cast<size_t>(std::atoi(digits)), '\0');
      if (recv(fd, text.data(), text.size(), MSG_WAITALL) != static_cast<ssize_t>(text.size())) {
        break;
      }
      const std::string body = answer(rank, text);
      char length[7];
      std::snprintf(length, sizeof(length), "%6u", static_cast<unsigned>(body.size()));
      const std::string reply = length + body;
      send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
    }
    close(fd);
  }

  static std::string valueOf(const std::string &text, const std::string &key) {
    const size_t at = text.find(";" + key + "=");
    return at == std::string::npos ? "" : text.substr(at + key.size() + 2, text.find(';', at + 1) - at - key.size() - 2);
  }

  std::string answer(int rank, const std::string &text) {
    std::unique_lock<std::mutex> lock(mutex);
    if (text.rfind("cmd=fullinit;", 0) == 0) {
      return fmt::format("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank={};size={};appnum=-1;debugged=FALSE;", rank,
                         ranks);
    }
    if (text == "cmd=job-getid;") {
      return "cmd=job-getid-response;jobid=7.0;;x;rc=0;";
    }
    if (text.rfind("cmd=kvs-put;", 0) == 0) {
      const std::string value = valueOf(text, "value");
      values[valueOf(text, "key")] = value;
      return value.size() <= 1024 ? "cmd=kvs-put-response;rc=0;" : "cmd=kvs-put-response;rc=14;errmsg=too long;";
    }
    if (text == "cmd=kvs-fence;") {
      ++arrived;
      changed.notify_all();
      changed.wait(lock, [&] { return arrived % ranks == 0; });
      return "cmd=kvs-fence-response;rc=0;";
    }
    if (text.rfind("cmd=kvs-get;", 0) == 0) {
      const auto found = values.find(valueOf(text, "key"));
      return found == values.end() ? "cmd=kvs-get-response;rc=0;found=FALSE;"
                                   : "cmd=kvs-get-response;rc=0;found=TRUE;value=" + found->second + ";";
    }
    finalized += text == "cmd=finalize;" ? 1 : 0;
    return "cmd=finalize-response;rc=0;";
  }

  int ranks;
  std::string greeting;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  int arrived = 0;
  std::vector<std::thread> threads;
};

constexpr const char *kGreeting = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";

// A text of a rank, with characters that PMI2 gives a meaning; longer than a value may be.
std::string textOf(int rank) {
  return fmt::format("{};=; 10.0.0.{}/8 ", rank, rank) + std::string(1500, static_cast<char>('a' + rank));
}

// A file for the secret of a job.
std::string keyFile(const std::string &content, mode_t mode) {
  static int count = 0;
  const std::string path = fmt::format("/tmp/ashlar-key-{}-{}", getpid(), ++count);
  std::ofstream(path) << content;
  REQUIRE(chmod(path.c_str(), mode) == 0);
  return path;
}

// A port of this host that nobody has.
uint16_t freePort() {
  Socket socket;
  uint16_t port = 0;
  REQUIRE(openListener(/*address=*/nullptr, socket, port).ok());
  return port;
}

Key keyOf(uint8_t byte) {
  Key key;
  key.fill(byte);
  return key;
}

} // namespace

TEST_CASE("pmi2: ranks exchange long texts, twice", "[runtime][launcher]") {
  constexpr int kRanks = 3;
  Pmi2Server server(kRanks, kGreeting);
  std::array<Status, kRanks> found;
  std::array<std::vector<std::string>, kRanks> first, second;
  std::array<std::string, kRanks> jobs;
  runRanks(kRanks, [&](int rank) {
    const auto self = static_cast<size_t>(rank);
    Pmi2Book book;
    found[self].update(book.open(server.ends[self], rank, kRanks));
    jobs[self] = book.job();
    found[self].update(book.exchange(textOf(rank), first[self]));
    found[self].update(book.exchange(textOf(rank + 1), second[self]));
    book.close();
  });
  for (size_t rank = 0; rank < kRanks; ++rank) {
    INFO(found[rank].message());
    REQUIRE(found[rank].ok());
    CHECK(jobs[rank] == "7.0;x");
    CHECK(first[rank] == std::vector<std::string>{textOf(0), textOf(1), textOf(2)});
    CHECK(second[rank] == std::vector<std::string>{textOf(1), textOf(2), textOf(3)});
  }
  CHECK(server.finalized == kRanks);
}

TEST_CASE("pmi2: servers that do not speak it, or of another job", "[runtime][launcher]") {
  {
    Pmi2Server server(1, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    Pmi2Book book;
    CHECK(book.open(server.ends[0], 0, 1).message() ==
          fmt::format("the launcher of PMI_FD {} does not speak PMI2: \"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\"; start "
                      "the program with srun --mpi=pmi2, or srun --mpi=pmix",
                      server.ends[0]));
  }
  {
    Pmi2Server server(2, kGreeting);
    Pmi2Book book;
    CHECK(book.open(server.ends[1], 0, 4).message().find("PMI_RANK 0 and PMI_SIZE 4 of the environment are rank 1 of 2 of the launcher") ==
          0);
  }
  Pmi2Book book;
  CHECK(book.open(/*descriptor=*/-1, 0, 2).message().find("the launcher takes no message at PMI_FD -1: ") == 0);
}

TEST_CASE("pmi2: a rank that does not come", "[runtime][launcher]") {
  const Setting patience("ASHLAR_PATIENCE", "1");
  Pmi2Server server(2, kGreeting);
  Pmi2Book book, other;
  REQUIRE(book.open(server.ends[0], 0, 2).ok());
  std::vector<std::string> all;
  CHECK(book.exchange("text", all).message() == "not all ranks came up within 1 s (ASHLAR_PATIENCE)");
  REQUIRE(other.open(server.ends[1], 1, 2).ok()); // ends the wait of the server
  (void)other.exchange("text", all).ok();
}

TEST_CASE("master: ranks meet at rank 0, among strangers", "[runtime][launcher]") {
  constexpr int kRanks = 4;
  const MasterPlace place{"localhost", freePort(), keyOf(7)};
  std::array<Status, kRanks> found;
  std::array<std::vector<std::string>, kRanks> first, second;
  runRanks(kRanks, [&](int rank) {
    const auto self = static_cast<size_t>(rank);
    std::vector<Socket> strangers;
    if (rank == 0) { // the others wait for it
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    if (rank == 1) { // strangers come first
      for (int i = 0; i < 20; ++i) {
        Socket one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in to = {};
        to.sin_family = AF_INET;
        to.sin_port = htons(place.port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        while (connect(one.fd, reinterpret_cast<sockaddr *>(&to), sizeof(to)) != 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        const std::string garbage(static_cast<size_t>(i * 7), '\xa5');
        send(one.fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
        strangers.push_back(std::move(one));
      }
    }
    MasterBook book;
    found[self].update(book.open(rank, kRanks, place));
    found[self].update(book.exchange(textOf(rank), first[self]));
    found[self].update(book.exchange(textOf(9 - rank), second[self]));
  });
  for (size_t rank = 0; rank < kRanks; ++rank) {
    INFO(found[rank].message());
    REQUIRE(found[rank].ok());
    CHECK(first[rank] == std::vector<std::string>{textOf(0), textOf(1), textOf(2), textOf(3)});
    CHECK(second[rank] == std::vector<std::string>{textOf(9), textOf(8), textOf(7), textOf(6)});
  }
}

TEST_CASE("master: a rank with another secret is no rank of the job", "[runtime][launcher]") {
  const Setting patience("ASHLAR_PATIENCE", "1");
  const uint16_t port = freePort();
  std::array<Status, 2> found;
  runRanks(2, [&](int rank) {
    MasterBook book;
    found[static_cast<size_t>(rank)] = book.open(rank, 2, MasterPlace{"127.0.0.1", port, keyOf(static_cast<uint8_t>(rank))});
  });
  CHECK(found[0].message().find("rank 1 did not connect to rank 0 within 1 s (ASHLAR_PATIENCE)") == 0);
  CHECK(found[1].message().find("rank 1 could not reach rank 0 at 127.0.0.1 within 1 s: ") == 0);
}

TEST_CASE("master: rank 0 listens in one network", "[runtime][launcher]") {
  MasterPlace place{"localhost", freePort(), keyOf(7), "203.0.113.0/24"};
  MasterBook elsewhere;
  CHECK(elsewhere.open(0, 2, place).message().find("ASHLAR_NETWORK is \"203.0.113.0/24\" but this host has") == 0);
  // A socket at the same port of another address of this host is free.
  place.network = "127.0.0.0/8";
  std::array<Status, 2> found;
  Status other;
  runRanks(2, [&](int rank) {
    if (rank == 1) {
      Address address;
      REQUIRE(parseAddress("127.0.0.9/8", address));
      Socket socket;
      uint16_t port = place.port;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      other = openListener(&address, socket, port);
    }
    MasterBook book;
    found[static_cast<size_t>(rank)] = book.open(rank, 2, place);
  });
  CHECK(found[0].ok());
  CHECK(found[1].ok());
  CHECK(other.ok());
}

TEST_CASE("master: the port is taken", "[runtime][launcher]") {
  Socket taken;
  uint16_t port = 0;
  REQUIRE(openListener(/*address=*/nullptr, taken, port).ok());
  MasterBook book;
  const std::string message = book.open(0, 2, {"localhost", port, keyOf(7)}).message();
  CHECK(message.find("MASTER_PORT: cannot open a socket at ") == 0);
  CHECK(message.find(": Address already in use; choose a free port, the same on all ranks") != std::string::npos);
}

TEST_CASE("master: rank 0 ends", "[runtime][launcher]") {
  const MasterPlace place{"127.0.0.1", freePort(), keyOf(7)};
  Status found;
  runRanks(2, [&](int rank) {
    MasterBook book;
    const Status opened = book.open(rank, 2, place);
    std::vector<std::string> all;
    if (rank == 1 && opened.ok()) {
      found = book.exchange("text", all);
    }
  });
  CHECK(found.code() == StatusCode::kAborted); // rank 0 says why
}

TEST_CASE("master: the environment names place and secret", "[runtime][launcher]") {
  const std::string good = keyFile(std::string(32, 'k'), 0600);
  const Setting address("MASTER_ADDR", "host");
  MasterPlace place;
  CHECK(findMaster(place).message() == "MASTER_PORT is \"\", not a number from 1 to 65534");
  const Setting port("MASTER_PORT", "29500");
  CHECK(
      findMaster(place).message().find("ranks on several hosts meet at MASTER_ADDR, where anybody may connect, but ASHLAR_KEY_FILE is not "
                                       "set; name a file of 32 random bytes") == 0);
  {
    const Setting file("ASHLAR_KEY_FILE", good);
    REQUIRE(findMaster(place).ok());
    CHECK(place.address == "host");
    CHECK(place.port == 29500);
    const std::string bytes(32, 'k');
    CHECK(place.key == sha256(bytes.data(), bytes.size()));
    const Setting agent("TORCHELASTIC_USE_AGENT_STORE", "True");
    REQUIRE(findMaster(place).ok());
    CHECK(place.port == 29501);
  }
  const std::string open = keyFile(std::string(32, 'k'), 0604), small = keyFile(std::string(31, 'k'), 0600);
  const Setting first("ASHLAR_KEY_FILE", open);
  CHECK(findMaster(place).message() == open + " of ASHLAR_KEY_FILE is open to all users (mode 604); chmod 600 it");
  const Setting second("ASHLAR_KEY_FILE", small);
  CHECK(findMaster(place).message() == small + " of ASHLAR_KEY_FILE has 31 bytes; a key has at least 32");
  const Setting third("ASHLAR_KEY_FILE", "/nowhere/key");
  CHECK(findMaster(place).message() == "cannot open /nowhere/key of ASHLAR_KEY_FILE: No such file or directory");
  for (const std::string &path : {good, open, small}) {
    unlink(path.c_str());
  }
}

} // namespace ashlar::test::address_books_test

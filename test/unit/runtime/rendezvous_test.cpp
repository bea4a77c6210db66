// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one host come to share memory, whoever else connects, and how they notice that one has ended.

#include "runtime/comm/collective.h"
#include "runtime/comm/launch/rendezvous.h"
#include "runtime/comm/local/local.h"
#include "runtime/comm/wait.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ashlar::test::rendezvous_test {

using namespace ashlar::rt;

namespace {

// A rendezvous of its own, as its first rank sees it.
Rendezvous rendezvousOf(int ranks) {
  static int count = 0;
  Rendezvous rendezvous;
  rendezvous.name = fmt::format("ashlar-test-{}-{}", getpid(), ++count);
  rendezvous.token = 4711;
  for (int rank = 0; rank < ranks; ++rank) {
    rendezvous.ranks.push_back(rank);
  }
  rendezvous.patience = 20;
  return rendezvous;
}

// The same as another rank sees it.
Rendezvous joining(Rendezvous rendezvous, size_t self) {
  rendezvous.self = self;
  return rendezvous;
}

// An abstract address; returns its length.
socklen_t addressOf(const std::string &name, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

// Connects, once somebody listens, and says `text`; returns the socket.
int strayConnection(const std::string &name, const std::string &text) {
  const int stray = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address;
  const socklen_t length = addressOf(name, address);
  while (connect(stray, reinterpret_cast<sockaddr *>(&address), length) != 0) {
    usleep(1000);
  }
  if (!text.empty()) {
    send(stray, text.data(), text.size(), MSG_NOSIGNAL);
  }
  return stray;
}

} // namespace

TEST_CASE("shared memory: what one process writes the other reads", "[runtime][comm]") {
  Mapping first;
  REQUIRE(Mapping::createShared(8192, first).ok());
  REQUIRE(first.reserve(0, 8192).ok());
  Status offered;
  Rendezvous rendezvous = rendezvousOf(/*ranks=*/2);
  std::thread offering([&] { offered = offerDescriptor(rendezvous, first.file()); });
  int descriptor = -1;
  Status received = receiveDescriptor(joining(rendezvous, 1), descriptor);
  offering.join();
  REQUIRE(received.ok());
  REQUIRE(offered.ok());
  Mapping second;
  REQUIRE(Mapping::attachShared(descriptor, 8192, second).ok());
  first.data()[4100] = 42;
  CHECK(second.data()[4100] == 42);
  CHECK(second.data()[4101] == 0);
}

TEST_CASE("shared memory: a rank that never comes, and more than there is, are errors", "[runtime][comm]") {
  Rendezvous rendezvous = rendezvousOf(/*ranks=*/4);
  rendezvous.patience = 0.05;
  CHECK(offerDescriptor(rendezvous, 0).message() == "ranks 1, 2, 3 of this host did not come up within 0.05 s (ASHLAR_PATIENCE)");
  int descriptor = -1;
  CHECK(receiveDescriptor(joining(rendezvous, 2), descriptor).message() ==
        "rank 2 waited 0.05 s for rank 0, the first of this host, to come up (ASHLAR_PATIENCE)");
  Mapping mapping;
  Status huge = Mapping::createShared(size_t{1} << 46, mapping);
  CHECK(huge.message().find("the ranks of this host need 67108864.0 MiB of memory but ") == 0);
}

TEST_CASE("rendezvous: who is not of the job, and who says nothing, keeps no rank out", "[runtime][comm]") {
  Mapping memory;
  REQUIRE(Mapping::createShared(8192, memory).ok());
  Rendezvous rendezvous = rendezvousOf(/*ranks=*/3);
  Status offered;
  std::thread offering([&] { offered = offerDescriptor(rendezvous, memory.file()); });
  std::vector<int> strays;
  for (int i = 0; i < 400; ++i) { // more than are kept
    strays.push_back(strayConnection(rendezvous.name, i % 3 == 0 ? std::string() : std::string(i % 3 == 1 ? 1 : 24, 'x')));
  }
  Rendezvous other = joining(rendezvous, 1);
  other.token += 1; // of another job
  int descriptor = -1;
  CHECK_FALSE(receiveDescriptor(other, descriptor).ok());
  for (size_t rank : {1, 2}) {
    Status received = receiveDescriptor(joining(rendezvous, rank), descriptor);
    INFO(received.message());
    CHECK(received.ok());
    close(descriptor);
  }
  offering.join();
  CHECK(offered.ok());
  for (int stray : strays) {
    close(stray);
  }
}

TEST_CASE("rendezvous: two processes that are one rank", "[runtime][comm]") {
  Mapping memory;
  REQUIRE(Mapping::createShared(8192, memory).ok());
  Rendezvous rendezvous = rendezvousOf(/*ranks=*/3);
  Status offered;
  std::thread offering([&] { offered = offerDescriptor(rendezvous, memory.file()); });
  int descriptor = -1;
  CHECK(receiveDescriptor(joining(rendezvous, 1), descriptor).ok());
  close(descriptor);
  Status second = receiveDescriptor(joining(rendezvous, 1), descriptor);
  offering.join();
  CHECK(second.code() == StatusCode::kAborted); // the first rank says it
  CHECK(offered.message() == "two processes claim rank 1 of this job; start each rank once");
}

TEST_CASE("rendezvous: the first rank twice", "[runtime][comm]") {
  Rendezvous rendezvous = rendezvousOf(/*ranks=*/2);
  const int taken = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address;
  const socklen_t length = addressOf(rendezvous.name, address);
  REQUIRE(bind(taken, reinterpret_cast<sockaddr *>(&address), length) == 0);
  CHECK(offerDescriptor(rendezvous, 0).message() ==
        "another process has the local socket " + rendezvous.name + " of rank 0 of this job; start each rank once");
  close(taken);
}

TEST_CASE("presence: the end of a process is noticed, in good order and by a signal", "[runtime][comm]") {
  for (const bool killed : {false, true}) {
    WindowShape shape;
    shape.processes = 2;
    Mapping mapping;
    REQUIRE(Mapping::createShared(Window::bytes(shape), mapping).ok());
    REQUIRE(mapping.reserve(0, Window::bytes(shape)).ok());
    Window window(shape, std::move(mapping));
    window.prepare();
    window.enter(0);
    CHECK(deadProcess(window) == -1); // the other one is not there yet
    int ready[2], go[2];
    REQUIRE((pipe(ready) == 0 && pipe(go) == 0));
    const pid_t child = fork();
    if (child == 0) {
      Mapping own;
      Status attached = Mapping::attachShared(dup(window.mapping().file()), Window::bytes(shape), own);
      auto *other = new Window(shape, std::move(own));
      other->enter(1);
      char byte = attached.ok() ? 1 : 0;
      write(ready[1], &byte, 1);
      read(go[0], &byte, 1);
      if (killed) {
        raise(SIGKILL);
      }
      delete other;
      _exit(0);
    }
    char byte = 0;
    REQUIRE((read(ready[0], &byte, 1) == 1 && byte == 1));
    CHECK(deadProcess(window) == -1);
    REQUIRE(write(go[1], &byte, 1) == 1);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    CHECK(deadProcess(window) == 1);
    CHECK(deadProcess(window) == 1);    // not only for who asks first
    CHECK(window.hasDied(1) == killed); // who closed the window may be done
    CHECK(!window.hasDied(0));
    for (int fd : {ready[0], ready[1], go[0], go[1]}) {
      close(fd);
    }
  }
}

TEST_CASE("waiting: a rank that does not come ends the job, one that gets on with something long does not", "[runtime][comm]") {
  ashlar_rt_axis axis = {"dp", 3};
  ashlar_rt_variant variant = {};
  variant.name = "default";
  variant.num_axes = 1;
  variant.axes = &axis;
  variant.devices_per_process = 1;
  setenv("ASHLAR_PATIENCE", "1", /*overwrite=*/1);
  for (const bool getsOn : {false, true}) {
    std::vector<std::unique_ptr<Communicator>> ranks;
    REQUIRE(createLocalCommunicators(variant, ranks).ok());
    Status found[2];
    std::thread first([&] { found[0] = ranks[0]->barrier(); });
    std::thread last([&] { found[1] = ranks[2]->barrier(); });
    for (int i = 0; i < 12; ++i) { // six times the patience: the job ends after four
      usleep(500 * 1000);
      if (getsOn) {
        ranks[1]->noteProgress();
      }
    }
    if (getsOn) {
      CHECK(ranks[1]->barrier().ok());
    }
    first.join();
    last.join();
    CHECK((found[0].ok() == getsOn && found[1].ok() == getsOn));
    if (!getsOn) { // one of the two says it
      Status &told = found[found[0].code() == StatusCode::kAborted ? 1 : 0];
      CHECK((found[0].code() == StatusCode::kAborted) != (found[1].code() == StatusCode::kAborted));
      CHECK(told.message().find("rank 1 did not come within 4 s") == 0);
    }
  }
  unsetenv("ASHLAR_PATIENCE");
}

TEST_CASE("waiting: the rank at the end of those that wait for each other is named", "[runtime][comm]") {
  WindowShape shape;
  shape.processes = 3;
  Mapping mapping;
  REQUIRE(Mapping::createPrivate(Window::bytes(shape), mapping).ok());
  Window window(shape, std::move(mapping));
  Place first, second;
  first.processes = second.processes = 3;
  first.hostOfProcess = second.hostOfProcess = {0, 0, 0};
  second.rank = 1;
  setenv("ASHLAR_PATIENCE", "1", /*overwrite=*/1);
  for (const bool looks : {true, false}) { // one that was stopped while it waited is the one that all wait for
    const Waiter waiter(window, second, /*transport=*/nullptr, /*oversubscribed=*/true);
    std::atomic<bool> isOver{false};
    std::thread other([&] {
      waiter.noteWait(2);
      while (looks && !isOver) {
        usleep(100 * 1000);
        waiter.noteWait(2);
      }
    });
    window.header().aborted = 0;
    Status status = Waiter(window, first, /*transport=*/nullptr, /*oversubscribed=*/true)
                        .wait(window.line(/*set=*/0, /*process=*/1).count, /*value=*/1, /*process=*/1);
    isOver = true;
    other.join();
    CHECK(status.message().find(looks ? "rank 2 did not come within 4 s" : "rank 1 did not come within 4 s") == 0);
  }
  unsetenv("ASHLAR_PATIENCE");
}

} // namespace ashlar::test::rendezvous_test

// SPDX-License-Identifier: Apache-2.0
//
// A communicator, and the exchange of bytes in every collective: to each peer a queue of messages to send and one of messages to receive,
// and the action when all have come. Each message begins with a line that names its collective, so members that call different ones get an
// error, where the real library would hang or mix their bytes up.

#ifndef ASHLAR_TEST_EMULATOR_NCCL_COMMUNICATOR_H
#define ASHLAR_TEST_EMULATOR_NCCL_COMMUNICATOR_H

#include "test/emulator/driver/device.h"
#include "test/emulator/nccl/segment.h"

#include <deque>
#include <map>

namespace ashlar::emulator {

// The collective of a message; equal on both sides.
struct Label {
  uint32_t kind, type, operation, root;
  uint64_t bytes;

  bool operator==(const Label &other) const {
    return kind == other.kind && type == other.type && operation == other.operation && root == other.root && bytes == other.bytes;
  }
};

// One message of an exchange.
struct Message {
  Label label;
  std::byte *data;
  uint64_t ticket = 0; // not 0: its number among sends that wait until the other side has begun as many receives
  size_t done = 0;     // bytes of label and data
  Label got{};         // the label that came
};

struct Communicator {
  enum State { Joining, Ready, Failed, Aborted };

  State state = Joining;
  ncclResult_t error = ncclSuccess;
  std::string errorText;
  int rank, ranks;
  Device *device;
  std::string name;
  Segment *segment = nullptr;
  std::shared_ptr<bool> captured = std::make_shared<bool>(); // shared with the nodes of graphs that use it
  std::map<int, uint64_t> tickets;                           // by peer: messages to it so far that wait for their receives

  ~Communicator();

  // Goes on with meeting the others. Blocks nothing.
  void join();
  void fail(ncclResult_t result, const std::string &text);
  // Returns ncclRemoteError when a member died and the environment wants that reported.
  ncclResult_t lookForDead();

private:
  bool announced = false;
};

// The bytes that go through a communicator in one operation or group.
class Exchange {
public:
  explicit Exchange(std::shared_ptr<Communicator> communicator) : communicator(std::move(communicator)) {}

  void send(int peer, const Label &label, const std::byte *data) { sends[peer].push_back({label, const_cast<std::byte *>(data)}); }
  void receive(int peer, const Label &label, std::byte *data) { receives[peer].push_back({label, data}); }
  // The same as calls of their own: the message does not leave before the other side has begun to receive it, as between GPUs, where a send
  // occupies its stream until then.
  void sendWhenPosted(int peer, const Label &label, const std::byte *data);
  void post(int peer, const Label &label, std::byte *data);
  // Called in order when everything has been exchanged.
  void then(std::function<void()> f) { finish.push_back(std::move(f)); }

  // Moves all bytes that can be moved; returns whether all is done, or the communicator was aborted.
  bool progress();

private:
  bool put(Ring &ring, Message &message);
  bool take(Ring &ring, Message &message);

  std::shared_ptr<Communicator> communicator;
  std::map<int, std::deque<Message>> sends, receives;
  std::vector<std::function<void()>> finish;
};

// One call of the API, ready to run any number of times.
struct Collective {
  enum Kind : uint32_t { AllReduce = 1, AllGather, ReduceScatter, Broadcast, Send, Receive };

  Kind kind;
  CUdeviceptr in, out;
  size_t count; // elements a member sends, or, in a reduce-scatter, gets
  ncclDataType_t type;
  ncclRedOp_t operation;
  int peer; // of Send and Receive; root of Broadcast
};

// Bytes of an element; 0 for types that are not known.
size_t bytesOf(ncclDataType_t type);

// Adds the transfers of the collective. Throws Fault when a buffer is not in device memory.
void add(Exchange &exchange, const Communicator &communicator, const Collective &collective);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_NCCL_COMMUNICATOR_H

// SPDX-License-Identifier: Apache-2.0
//
// Members meet, and exchange bytes.

#include "test/emulator/nccl/communicator.h"

#include "test/emulator/driver/settings.h"

#include <cstdlib>
#include <unistd.h>

namespace ashlar::emulator {
namespace {

// What NCCL takes for a host: NCCL_HOSTID, or the machine.
uint64_t hostHash() {
  if (const char *id = std::getenv("NCCL_HOSTID")) {
    return std::hash<std::string>()(id);
  }
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return std::hash<std::string>()(name);
}

} // namespace

Communicator::~Communicator() {
  if (segment) {
    segment->member[rank].left = 1;
    closeSegment(segment);
  }
}

void Communicator::fail(ncclResult_t result, const std::string &text) {
  state = Failed;
  error = result;
  errorText = text;
  say("NCCL: " + text);
}

void Communicator::join() {
  if (state != Joining) {
    return;
  }
  if (!announced) {
    segment = openSegment(name);
    if (!segment) {
      fail(ncclSystemError, "no shared memory");
      return;
    }
    int none = 0;
    Member &self = segment->member[rank];
    self.host = hostHash();
    self.device = device->index;
    if (!segment->members.compare_exchange_strong(none, ranks) && none != ranks) {
      fail(ncclInvalidUsage, "the members do not agree on their number");
      return;
    }
    int nobody = 0;
    if (!self.process.compare_exchange_strong(nobody, getpid())) {
      fail(ncclInvalidUsage, "rank " + std::to_string(rank) + " has come already");
      return;
    }
    announced = true;
  }
  for (int i = 0; i < ranks; ++i) {
    if (segment->member[i].process == 0) {
      return;
    }
  }
  removeSegmentName(name);
  for (int i = 0; i < ranks; ++i) {
    for (int j = 0; j < i; ++j) {
      if (segment->member[i].host == segment->member[j].host && segment->member[i].device == segment->member[j].device) {
        fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(j) + " and rank " + std::to_string(i) +
                                   " both on CUDA device " + std::to_string((segment->member[i].device + 1) * 4096));
        return;
      }
    }
  }
  state = Ready;
}

ncclResult_t Communicator::lookForDead() {
  if (state != Ready || setting("NCCL_DEATH", 0) == 0) {
    return error;
  }
  for (int i = 0; i < ranks; ++i) {
    if (segment->member[i].left == 0 && !isAlive(segment->member[i].process)) {
      fail(ncclRemoteError, "rank " + std::to_string(i) + " died");
      break;
    }
  }
  return error;
}

void Exchange::sendWhenPosted(int peer, const Label &label, const std::byte *data) {
  send(peer, label, data);
  sends[peer].back().ticket = ++communicator->tickets[peer];
}

void Exchange::post(int peer, const Label &label, std::byte *data) {
  receive(peer, label, data);
  ++communicator->segment->posted[peer][communicator->rank];
}

bool Exchange::put(Ring &ring, Message &message) {
  if (message.done < sizeof(Label)) {
    message.done += ring.put(reinterpret_cast<const std::byte *>(&message.label) + message.done, sizeof(Label) - message.done);
  }
  if (message.done >= sizeof(Label)) {
    const size_t sent = message.done - sizeof(Label);
    message.done += ring.put(message.data + sent, message.label.bytes - sent);
  }
  return message.done == sizeof(Label) + message.label.bytes;
}

bool Exchange::take(Ring &ring, Message &message) {
  if (message.done < sizeof(Label)) {
    message.done += ring.take(reinterpret_cast<std::byte *>(&message.got) + message.done, sizeof(Label) - message.done);
    if (message.done < sizeof(Label)) {
      return false;
    }
    if (!(message.got == message.label)) {
      communicator->fail(ncclInternalError, "rank " + std::to_string(communicator->rank) + " expects collective " +
                                                std::to_string(message.label.kind) + " of " + std::to_string(message.label.bytes) +
                                                " bytes, a peer sends " + std::to_string(message.got.kind) + " of " +
                                                std::to_string(message.got.bytes));
      return false;
    }
  }
  const size_t got = message.done - sizeof(Label);
  message.done += ring.take(message.data + got, message.label.bytes - got);
  return message.done == sizeof(Label) + message.label.bytes;
}

bool Exchange::progress() {
  if (communicator->state == Communicator::Aborted) {
    return true;
  }
  if (communicator->state != Communicator::Ready) {
    return false;
  }
  bool done = true;
  const int rank = communicator->rank;
  for (auto &[peer, queue] : sends) {
    const uint64_t posted = communicator->segment->posted[rank][peer];
    while (!queue.empty() && queue.front().ticket <= posted && put(communicator->segment->rings[rank][peer], queue.front())) {
      queue.pop_front();
    }
    done &= queue.empty();
  }
  for (auto &[peer, queue] : receives) {
    while (!queue.empty() && take(communicator->segment->rings[peer][rank], queue.front())) {
      queue.pop_front();
    }
    done &= queue.empty();
  }
  if (done) {
    for (const auto &f : finish) {
      f();
    }
  }
  return done;
}

} // namespace ashlar::emulator

// SPDX-License-Identifier: Apache-2.0
//
// The exchange of a text between all ranks before they have streams: by the launcher (runtime/comm/launch), or within a process for tests.

#ifndef ASHLAR_RUNTIME_COMM_TCP_ADDRESS_BOOK_H
#define ASHLAR_RUNTIME_COMM_TCP_ADDRESS_BOOK_H

#include "runtime/base/status.h"

#include <string>
#include <vector>

namespace ashlar::rt {

class AddressBook {
public:
  virtual ~AddressBook() = default;

  // Gathers a line from each rank, by rank. Every rank calls it, as often as the others; waits for them.
  virtual Status exchange(const std::string &mine, std::vector<std::string> &all) = 0;

  // Takes leave of the launcher, in a job that went well: it takes a rank that ends without it for a failed one.
  virtual void close() {}
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_ADDRESS_BOOK_H

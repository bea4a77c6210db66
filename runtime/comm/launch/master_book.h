// SPDX-License-Identifier: Apache-2.0
//
// The exchange of addresses where no launcher serves it: rank 0 listens at MASTER_ADDR and MASTER_PORT, as PyTorch's launchers name them,
// and the others call it. Anybody may connect, so all ranks share a secret, the file ASHLAR_KEY_FILE, which each proves to have
// (greeting.h).

#ifndef ASHLAR_RUNTIME_COMM_LAUNCH_MASTER_BOOK_H
#define ASHLAR_RUNTIME_COMM_LAUNCH_MASTER_BOOK_H

#include "runtime/comm/tcp/address_book.h"
#include "runtime/comm/tcp/meeting.h"

namespace ashlar::rt {

// Where the ranks meet, and their secret.
struct MasterPlace {
  std::string address; // of rank 0: a name or a number
  uint16_t port = 0;
  Key key = {};
  std::string network = {}; // in which rank 0 listens, "10.77.0.0/24"; "": in all
};

// Reads it from the environment. torchrun keeps MASTER_PORT for its own server where TORCHELASTIC_USE_AGENT_STORE is True; then the port
// behind it is taken. Fails where a variable is missing or wrong, or the file holds less than 32 bytes or is open to all users.
Status findMaster(MasterPlace &place);

// The address book of one rank.
class MasterBook final : public AddressBook {
public:
  // Waits for the connections of all ranks, as rank `rank` of `ranks`.
  Status open(int rank, int ranks, const MasterPlace &place);

  Status exchange(const std::string &mine, std::vector<std::string> &all) override;

private:
  int self = 0, ranks = 1;
  std::vector<Appointment> connections; // of rank 0 one to each other rank, in order; of others one to rank 0
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_LAUNCH_MASTER_BOOK_H

// SPDX-License-Identifier: Apache-2.0
//
// PMIx, by which mpirun, and srun --mpi=pmix, serve the ranks that they start: they exchange their addresses over it. libpmix is loaded
// when a job has more than one host: an executable starts where it is absent.

#ifndef ASHLAR_RUNTIME_COMM_LAUNCH_PMIX_H
#define ASHLAR_RUNTIME_COMM_LAUNCH_PMIX_H

#include "runtime/comm/tcp/address_book.h"

#include <memory>

namespace ashlar::rt {

struct PmixLibrary;

// The address book of the ranks of one launch.
class PmixBook final : public AddressBook {
public:
  PmixBook();
  ~PmixBook() override;

  // Loads libpmix and connects to the server of the launcher, as rank `rank` of `ranks`.
  Status open(int rank, int ranks);

  Status exchange(const std::string &mine, std::vector<std::string> &all) override;

  void close() override;

private:
  Status fence();
  Status get(int rank, const std::string &key, double patience, std::string &value);

  std::unique_ptr<PmixLibrary> library;
  std::string job; // its name at the server
  int ranks = 0;
  int exchanges = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_LAUNCH_PMIX_H

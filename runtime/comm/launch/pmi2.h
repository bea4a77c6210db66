// SPDX-License-Identifier: Apache-2.0
//
// PMI2, by which srun --mpi=pmi2 and MPICH's mpiexec serve their ranks: commands over the socket PMI_FD, answered one by one. After a
// greeting in the lines of PMI 1, a message is its length, six characters, and "cmd=NAME;key=value;...", where ";;" is a semicolon.
//
//   "    24cmd=kvs-put;key=a;value=b;"  ->  "    32cmd=kvs-put-response;rc=0;..."

#ifndef ASHLAR_RUNTIME_COMM_LAUNCH_PMI2_H
#define ASHLAR_RUNTIME_COMM_LAUNCH_PMI2_H

#include "runtime/comm/tcp/address_book.h"

#include <map>

namespace ashlar::rt {

// The address book of the ranks of one launch.
class Pmi2Book final : public AddressBook {
public:
  // Greets the launcher over the descriptor, as rank `rank` of `ranks`.
  Status open(int descriptor, int rank, int ranks);

  // The launcher's name of the job, after open().
  const std::string &job() const { return jobName; }

  Status exchange(const std::string &mine, std::vector<std::string> &all) override;
  void close() override;

private:
  using Fields = std::map<std::string, std::string>;

  Status call(const std::string &command, const Fields &fields, Fields &answer);
  Status receive(size_t bytes, std::string &text);

  int fd = -1, self = 0, ranks = 1, exchanges = 0;
  std::string jobName;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_LAUNCH_PMI2_H

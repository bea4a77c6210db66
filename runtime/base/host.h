// SPDX-License-Identifier: Apache-2.0
//
// The runtime's queries about the machine and its environment.

#ifndef ASHLAR_RUNTIME_BASE_HOST_H
#define ASHLAR_RUNTIME_BASE_HOST_H

#include "runtime/base/status.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <sched.h>

namespace ashlar::rt {

// Returns a text that is equal on two processes exactly when they can share memory: host name, boot id, network namespace.
std::string hostIdentity();

// Returns how many cores this process may run on; >= 1. mpirun binds a rank to one core by default.
int usableCores();

// The cores that a process may run on.
class CoreSet {
public:
  // Number of cores; >= 1.
  int count() const;

  // Binds the calling thread, and those it starts from now on, to these cores.
  void apply() const;

private:
  friend CoreSet currentCores();
  cpu_set_t cores;
};

// Returns the cores of the calling thread.
CoreSet currentCores();

// Lets the calling thread, and those it starts from now on, run on all cores that the system grants the process.
void allowAllCores();

// Returns how many cores the system grants this process, whatever it is bound to now; >= 1.
int grantedCores();

// Makes the system kill this process when its parent ends. A launcher that is killed itself cannot end its ranks, which would go on alone.
void endWithParent();

// Checks the environment variables that are whole numbers: each is within the bounds of the table in host.cpp, empty or not set.
Status checkEnvironment();

// Returns the value of one of these variables; the table's default when it is empty, not set or refused by checkEnvironment().
int64_t environmentInteger(std::string_view name);

// Returns true if mpirun bound this process to cores of its choice.
bool isBoundByMpirun();

// Returns how many seconds a rank waits for another before it reports: ASHLAR_PATIENCE.
double patienceSeconds();

// Returns the 64-bit FNV-1a hash of the text.
uint64_t hashText(std::string_view text);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_HOST_H

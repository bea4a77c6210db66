// SPDX-License-Identifier: Apache-2.0
//
// What the runtime asks about the machine and the environment it runs on.

#ifndef ASHLAR_RUNTIME_BASE_HOST_H
#define ASHLAR_RUNTIME_BASE_HOST_H

#include <cstdint>
#include <string>

namespace ashlar::rt {

// Returns a text that is equal on two processes exactly when they can share memory: host name, boot id, IPC and mount namespaces.
std::string hostIdentity();

// Returns how many cores this process may run on; >= 1. mpirun binds a rank to one core by default.
int usableCores();

// Returns how many cores the machine has online; >= 1.
int onlineCores();

// Returns the value of a whole-number environment variable; `fallback` when it is not set or not a number.
int64_t environmentInteger(const char *name, int64_t fallback);

// Returns the 64-bit FNV-1a hash of the text.
uint64_t hashText(const std::string &text);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_HOST_H

// SPDX-License-Identifier: Apache-2.0
//
// A function of glibc 2.36 that LLVM's library calls, for machines with an older one (bundle_libraries.py).

#include <stdint.h>
#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void) {
  uint32_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) { // interrupted by a signal
  }
  return number;
}

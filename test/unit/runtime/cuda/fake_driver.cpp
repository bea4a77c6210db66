// SPDX-License-Identifier: Apache-2.0
//
// What the loader of the driver may find: built with a version and, but for one symbol, without the rest.

#ifndef ASHLAR_FAKE_VERSION
#define ASHLAR_FAKE_VERSION 13000
#endif

extern "C" int cuDriverGetVersion(int *version) {
  *version = ASHLAR_FAKE_VERSION;
  return 0;
}

extern "C" int cuInit(unsigned) {
  return 0;
}

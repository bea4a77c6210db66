// SPDX-License-Identifier: Apache-2.0
//
// Models and their external data are mapped, not read. A file that is cut meanwhile has no page where one was.

#ifndef ASHLAR_COMPILER_FILE_LOST_PAGE_H
#define ASHLAR_COMPILER_FILE_LOST_PAGE_H

namespace ashlar::file {

// Prints an error that names the file mapped at `address`, whose page is gone. Async-signal-safe.
void reportLostPage(const void *address);

} // namespace ashlar::file

#endif // ASHLAR_COMPILER_FILE_LOST_PAGE_H

# SPDX-License-Identifier: Apache-2.0
#
# Writes the viewer as string literals: page.html, page.css, then the scripts, each as a member of an initializer.
#   cmake -DOUT=F.inc "-DFILES=page.html;page.css;a.js;b.js" -P embed.cmake
set(text "")
foreach(file ${FILES})
  file(READ ${file} content)
  string(REGEX REPLACE "^(<!--|/\\*|//) SPDX-License-Identifier: Apache-2.0( -->| \\*/)?\n" "" content "${content}")
  string(APPEND text "R\"viewer(${content})viewer\",\n")
endforeach()
file(WRITE ${OUT} "${text}")

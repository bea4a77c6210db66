// SPDX-License-Identifier: Apache-2.0
//
// JPEG and PNG files as red, green and blue bytes. Files are not trusted: sizes are checked before memory is taken, and a file that ends
// too early or is damaged is refused, where other decoders show gray.

#ifndef ASHLAR_RUNTIME_DATA_FORMATS_IMAGE_DECODER_H
#define ASHLAR_RUNTIME_DATA_FORMATS_IMAGE_DECODER_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::rt {

// Most pixels of an image: 768 MiB of memory.
inline constexpr int64_t kMostImagePixels = int64_t{1} << 28;

// An image, height x width x 3 bytes.
struct DecodedImage {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;
};

// Decodes the bytes of a file, whose first ones show its format. Gray images get three equal channels, CMYK ones are converted as Pillow
// does it, an alpha channel is dropped, of 16 bits the upper 8 are taken; gamma and color profiles are not applied. Memory of `image` is
// used again. Returns the fault, "" for none. Throws std::bad_alloc.
std::string decodeImage(const uint8_t *bytes, size_t size, DecodedImage &image);

// A part of an image that is resized: `height` x `width` pixels whose first one begins at (top, left), in pixels of the source; each is as
// large as rowScale x columnScale pixels of the source. Source pixels outside of the window do not count.
struct ResizedPart {
  int64_t windowTop = 0, windowLeft = 0, windowHeight = 0, windowWidth = 0;
  double top = 0, left = 0, rowScale = 1, columnScale = 1;
  int64_t height = 0, width = 0;
};

// Resizes a part with a triangle filter, which where it shrinks is as wide as the pixels of the result (antialiasing): Pillow's BILINEAR,
// but rounded to bytes only at the end. `to`: height x width x 3.
void resizePart(const DecodedImage &image, const ResizedPart &part, uint8_t *to);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_FORMATS_IMAGE_DECODER_H

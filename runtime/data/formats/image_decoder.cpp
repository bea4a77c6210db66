// SPDX-License-Identifier: Apache-2.0
//
// Calls libjpeg-turbo and libpng. libjpeg leaves a function by longjmp where it finds a fault, so no object with a destructor lives in a
// frame that it leaves.

#include "runtime/data/formats/image_decoder.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

namespace ashlar::rt {

namespace {

std::string sizeFault(int64_t height, int64_t width) {
  return "it announces " + std::to_string(height) + " x " + std::to_string(width) + " pixels, and " + std::to_string(kMostImagePixels) +
         " are the most that are read";
}

// libjpeg's errors, kept as text.
struct JpegFault {
  jpeg_error_mgr manager; // first: libjpeg knows this part
  jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void leaveJpeg(j_common_ptr common) {
  auto *fault = reinterpret_cast<JpegFault *>(common->err);
  fault->manager.format_message(common, fault->text);
  longjmp(fault->back, 1);
}

// Warnings about pixels that are not those of the file are faults; others, such as bytes that belong to nothing, are not.
void hearJpeg(j_common_ptr common, int level) {
  const int code = common->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE)) {
    leaveJpeg(common);
  }
}

// Turns a row of four inks into three colors. Adobe's programs write inks inverted.
void colorsOfInks(const uint8_t *inks, int64_t count, bool isInverted, uint8_t *to) {
  for (int64_t i = 0; i < count; ++i) {
    const unsigned black = isInverted ? inks[4 * i + 3] : 255 - inks[4 * i + 3];
    for (int64_t c = 0; c < 3; ++c) {
      const unsigned ink = isInverted ? inks[4 * i + c] : 255 - inks[4 * i + c];
      to[3 * i + c] = static_cast<uint8_t>((ink * black + 127) / 255);
    }
  }
}

// Returns whether the image was decoded; else the fault's text is set, or the image is too large.
bool runJpeg(jpeg_decompress_struct &jpeg, JpegFault &fault, const uint8_t *bytes, size_t size, DecodedImage &image,
             std::vector<uint8_t> &inks) {
  if (setjmp(fault.back) != 0) {
    return false;
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, bytes, size);
  jpeg_read_header(&jpeg, TRUE);
  image.height = jpeg.image_height;
  image.width = jpeg.image_width;
  if (image.height * image.width > kMostImagePixels) {
    return false;
  }
  const bool hasInks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = hasInks ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  image.pixels.resize(3 * image.height * image.width);
  inks.resize(hasInks ? 4 * image.width : 0);
  while (jpeg.output_scanline < jpeg.output_height) {
    uint8_t *row = image.pixels.data() + 3 * image.width * jpeg.output_scanline;
    JSAMPROW to = hasInks ? inks.data() : row;
    jpeg_read_scanlines(&jpeg, &to, 1);
    if (hasInks) {
      colorsOfInks(inks.data(), image.width, jpeg.saw_Adobe_marker == TRUE, row);
    }
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

std::string decodeJpeg(const uint8_t *bytes, size_t size, DecodedImage &image) {
  thread_local std::vector<uint8_t> inks;
  jpeg_decompress_struct jpeg = {};
  JpegFault fault = {};
  jpeg.err = jpeg_std_error(&fault.manager);
  fault.manager.error_exit = leaveJpeg;
  fault.manager.emit_message = hearJpeg;
  const bool isDecoded = runJpeg(jpeg, fault, bytes, size, image, inks);
  jpeg_destroy_decompress(&jpeg);
  if (isDecoded) {
    return "";
  }
  return fault.text[0] != '\0' ? "libjpeg: " + std::string(fault.text) : sizeFault(image.height, image.width);
}

std::string decodePng(const uint8_t *bytes, size_t size, DecodedImage &image) {
  thread_local std::vector<uint8_t> withAlpha;
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  std::string fault;
  if (png_image_begin_read_from_memory(&png, bytes, size) == 0) {
    fault = "libpng: " + std::string(png.message);
  } else if (static_cast<int64_t>(png.height) * png.width > kMostImagePixels) {
    fault = sizeFault(png.height, png.width);
  } else {
    png.format = PNG_FORMAT_RGBA;
    image.height = png.height;
    image.width = png.width;
    withAlpha.resize(4 * image.height * image.width);
    if (png_image_finish_read(&png, nullptr, withAlpha.data(), 0, nullptr) == 0) {
      fault = "libpng: " + std::string(png.message);
    }
  }
  png_image_free(&png);
  if (!fault.empty()) {
    return fault;
  }
  image.pixels.resize(3 * image.height * image.width);
  for (int64_t i = 0; i < image.height * image.width; ++i) {
    std::memcpy(&image.pixels[3 * i], &withAlpha[4 * i], 3);
  }
  return "";
}

// The source pixels of each pixel of a side, and their weights.
struct ResizedLine {
  std::vector<int64_t> first, count;
  std::vector<float> weights; // `most` a pixel
  int64_t most = 0;

  void make(double begin, double scale, int64_t pixels, int64_t low, int64_t high) {
    const double width = std::max(scale, 1.0);
    most = static_cast<int64_t>(std::ceil(width)) * 2 + 1;
    first.resize(pixels);
    count.resize(pixels);
    weights.assign(pixels * most, 0);
    for (int64_t i = 0; i < pixels; ++i) {
      const double center = begin + (static_cast<double>(i) + 0.5) * scale;
      const int64_t from = std::clamp(static_cast<int64_t>(std::floor(center - width + 0.5)), low, high - 1);
      const int64_t end = std::clamp(static_cast<int64_t>(std::floor(center + width + 0.5)), from + 1, high);
      double sum = 0;
      for (int64_t x = from; x < end; ++x) {
        sum += weightOf(x, center, width);
      }
      first[i] = from;
      count[i] = std::min(end - from, most);
      for (int64_t x = 0; x < count[i]; ++x) {
        weights[i * most + x] = static_cast<float>(sum > 0 ? weightOf(from + x, center, width) / sum : x == 0);
      }
    }
  }

private:
  static double weightOf(int64_t pixel, double center, double width) {
    return std::max(0.0, 1 - std::fabs((static_cast<double>(pixel) + 0.5 - center) / width));
  }
};

} // namespace

std::string decodeImage(const uint8_t *bytes, size_t size, DecodedImage &image) {
  if (size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff) {
    return decodeJpeg(bytes, size, image);
  }
  if (size >= 8 && png_sig_cmp(bytes, 0, 8) == 0) {
    return decodePng(bytes, size, image);
  }
  return "it begins neither as a JPEG nor as a PNG file";
}

void resizePart(const DecodedImage &image, const ResizedPart &part, uint8_t *to) {
  thread_local ResizedLine rows, columns;
  thread_local std::vector<float> narrow, sums;
  rows.make(part.top, part.rowScale, part.height, part.windowTop, part.windowTop + part.windowHeight);
  columns.make(part.left, part.columnScale, part.width, part.windowLeft, part.windowLeft + part.windowWidth);
  // The rows that are needed, each as wide as the result.
  const int64_t firstRow = rows.first.front(), endRow = rows.first.back() + rows.count.back(), length = 3 * part.width;
  narrow.resize((endRow - firstRow) * length);
  for (int64_t y = firstRow; y < endRow; ++y) {
    const uint8_t *from = image.pixels.data() + 3 * image.width * y;
    float *row = narrow.data() + (y - firstRow) * length;
    for (int64_t x = 0; x < part.width; ++x) {
      float sum[3] = {0, 0, 0};
      const float *weights = &columns.weights[x * columns.most];
      for (int64_t i = 0; i < columns.count[x]; ++i) {
        const uint8_t *pixel = from + 3 * (columns.first[x] + i);
        for (int c = 0; c < 3; ++c) {
          sum[c] += weights[i] * static_cast<float>(pixel[c]);
        }
      }
      std::copy_n(sum, 3, row + 3 * x);
    }
  }
  sums.resize(length);
  for (int64_t y = 0; y < part.height; ++y) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int64_t i = 0; i < rows.count[y]; ++i) {
      const float weight = rows.weights[y * rows.most + i];
      const float *row = narrow.data() + (rows.first[y] + i - firstRow) * length;
      for (int64_t x = 0; x < length; ++x) {
        sums[x] += weight * row[x];
      }
    }
    for (int64_t x = 0; x < length; ++x) {
      to[y * length + x] = static_cast<uint8_t>(std::clamp(sums[x] + 0.5f, 0.0f, 255.0f));
    }
  }
}

} // namespace ashlar::rt

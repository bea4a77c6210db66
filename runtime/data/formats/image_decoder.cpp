// SPDX-License-Identifier: Apache-2.0
//
// Calls libjpeg-turbo and libpng. They leave a function by longjmp where they find a fault, so no object with a destructor lives in a frame
// that they leave.

#include "runtime/data/formats/image_decoder.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

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

// Turns a row of four inks into three colors. Inks are taken as inverted, as Adobe's programs write them, with and without its marker.
void colorsOfInks(const uint8_t *inks, int64_t count, uint8_t *to) {
  for (int64_t i = 0; i < count; ++i) {
    const unsigned black = inks[4 * i + 3];
    for (int64_t c = 0; c < 3; ++c) {
      to[3 * i + c] = static_cast<uint8_t>((inks[4 * i + c] * black + 127) / 255);
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
      colorsOfInks(inks.data(), image.width, row);
    }
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

std::string decodeJpeg(const uint8_t *bytes, size_t size, DecodedImage &image) {
  thread_local std::vector<uint8_t> inks;
  JpegFault fault = {};
  struct Decoder {
    jpeg_decompress_struct jpeg = {};
    ~Decoder() { jpeg_destroy_decompress(&jpeg); }
  } decoder;
  decoder.jpeg.err = jpeg_std_error(&fault.manager);
  fault.manager.error_exit = leaveJpeg;
  fault.manager.emit_message = hearJpeg;
  if (runJpeg(decoder.jpeg, fault, bytes, size, image, inks)) {
    return "";
  }
  return fault.text[0] != '\0' ? "libjpeg: " + std::string(fault.text) : sizeFault(image.height, image.width);
}

// A file in memory, read by libpng, and its error as text.
struct PngSource {
  const uint8_t *at;
  size_t left;
  char fault[200];
};

void readPng(png_structp png, png_bytep to, size_t bytes) {
  auto *source = static_cast<PngSource *>(png_get_io_ptr(png));
  if (bytes > source->left) {
    png_error(png, "the file is truncated");
  }
  std::memcpy(to, source->at, bytes);
  source->at += bytes;
  source->left -= bytes;
}

[[noreturn]] void leavePng(png_structp png, png_const_charp text) {
  auto *source = static_cast<PngSource *>(png_get_error_ptr(png));
  std::snprintf(source->fault, sizeof(source->fault), "%s", text);
  png_longjmp(png, 1);
}

// Warnings are about chunks that are left out: they change no pixel.
void ignorePng(png_structp, png_const_charp) {}

// Returns whether the image was decoded; else the fault's text is set, or the image is too large. Pixels are the numbers in the file: gamma
// and color profiles are not applied, and of 16 bits the upper 8 are taken.
bool runPng(png_structp png, png_infop info, PngSource &source, DecodedImage &image) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_set_read_fn(png, &source, readPng);
  png_read_info(png, info);
  image.height = png_get_image_height(png, info);
  image.width = png_get_image_width(png, info);
  if (image.height * image.width > kMostImagePixels) {
    return false;
  }
  png_set_expand(png); // palettes, 1 to 4 bits, and a transparent color, which becomes alpha
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  image.pixels.resize(3 * image.height * image.width);
  for (int64_t row = 0; row < passes * image.height; ++row) {
    png_read_row(png, image.pixels.data() + 3 * image.width * (row % image.height), nullptr);
  }
  return true;
}

std::string decodePng(const uint8_t *bytes, size_t size, DecodedImage &image) {
  PngSource source = {bytes, size, {}};
  struct Decoder {
    png_structp png = nullptr;
    png_infop info = nullptr;
    ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
  } decoder;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, leavePng, ignorePng);
  decoder.info = decoder.png != nullptr ? png_create_info_struct(decoder.png) : nullptr;
  if (decoder.info == nullptr) {
    throw std::bad_alloc();
  }
  if (runPng(decoder.png, decoder.info, source, image)) {
    return "";
  }
  return source.fault[0] != '\0' ? "libpng: " + std::string(source.fault) : sizeFault(image.height, image.width);
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

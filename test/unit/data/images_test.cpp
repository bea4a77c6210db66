// SPDX-License-Identifier: Apache-2.0
//
// Folders of images: files that libjpeg and libpng encode here, decoded, cut and resized, against loops that are written down from
// torchvision's and Pillow's description. Damaged files end a run with one line.

#include "runtime/base/philox.h"
#include "runtime/data/dataset.h"
#include "runtime/data/formats/image_decoder.h"
#include "test/unit/data/allocations.h"
#include "test/unit/data/read_sample.h"
#include "test/unit/data/temporary_folder.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <catch2/catch.hpp>
#include <jpeglib.h>
#include <png.h>

namespace ashlar::test::images_test {

using namespace ashlar::rt;
using ashlar::test::TemporaryFolder;
using Catch::Matchers::Contains;

namespace {

struct Pixels {
  int height, width, channels;
  std::vector<uint8_t> bytes;
};

// A smooth image, with another color in each place.
Pixels smooth(int height, int width, int channels = 3) {
  Pixels image{height, width, channels, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        image.bytes.push_back(static_cast<uint8_t>(20 + 200 *
                                                            (c == 0   ? y
                                                             : c == 1 ? x
                                                                      : height + width - y - x) /
                                                            (c == 0   ? height
                                                             : c == 1 ? width
                                                                      : height + width)));
      }
    }
  }
  return image;
}

// How a PNG file holds pixels.
struct PngForm {
  int bits = 8;     // of 16 the lower 8 are the complement of the upper
  double gamma = 0; // that a viewer would apply; 0: none
  int interlace = PNG_INTERLACE_NONE;
  std::vector<png_color> palette; // of the pixels, whose color 1 is transparent
};

std::string png(const Pixels &image, const PngForm &form = {}) {
  std::string bytes;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(
      writer, &bytes,
      [](png_structp png, png_bytep from, size_t count) {
        static_cast<std::string *>(png_get_io_ptr(png))->append(reinterpret_cast<char *>(from), count);
      },
      nullptr);
  const int type = !form.palette.empty() ? PNG_COLOR_TYPE_PALETTE
                   : image.channels == 1 ? PNG_COLOR_TYPE_GRAY
                   : image.channels == 2 ? PNG_COLOR_TYPE_GRAY_ALPHA
                   : image.channels == 3 ? PNG_COLOR_TYPE_RGB
                                         : PNG_COLOR_TYPE_RGB_ALPHA;
  png_set_IHDR(writer, info, image.width, image.height, form.bits, type, form.interlace, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (form.gamma != 0) {
    png_set_gAMA(writer, info, form.gamma);
  }
  if (!form.palette.empty()) {
    const png_byte opacity[] = {255, 0};
    png_set_PLTE(writer, info, form.palette.data(), static_cast<int>(form.palette.size()));
    png_set_tRNS(writer, info, opacity, 2, nullptr);
  }
  std::vector<uint8_t> all;
  for (uint8_t byte : image.bytes) {
    all.push_back(byte);
    all.resize(all.size() + (form.bits == 16 ? 1 : 0), static_cast<uint8_t>(~byte));
  }
  std::vector<png_bytep> rows;
  for (int y = 0; y < image.height; ++y) {
    rows.push_back(all.data() + all.size() / image.height * y);
  }
  png_set_rows(writer, info, rows.data());
  png_write_png(writer, info, PNG_TRANSFORM_PACKING, nullptr);
  png_destroy_write_struct(&writer, &info);
  return bytes;
}

std::string jpeg(const Pixels &image, bool isProgressive = false, bool hasAdobeMarker = true) {
  jpeg_compress_struct encoder = {};
  jpeg_error_mgr errors = {};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char *memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &memory, &size);
  encoder.image_width = image.width;
  encoder.image_height = image.height;
  encoder.input_components = image.channels;
  encoder.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : image.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, 98, TRUE);
  encoder.write_Adobe_marker = encoder.write_Adobe_marker && hasAdobeMarker ? TRUE : FALSE;
  if (isProgressive) {
    jpeg_simple_progression(&encoder);
  }
  jpeg_start_compress(&encoder, TRUE);
  while (encoder.next_scanline < encoder.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.bytes.data() + encoder.next_scanline * image.width * image.channels);
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string bytes(reinterpret_cast<char *>(memory), size);
  jpeg_destroy_compress(&encoder);
  std::free(memory);
  return bytes;
}

std::string decoded(const std::string &bytes, DecodedImage &image) {
  return decodeImage(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), image);
}

// Pillow's BILINEAR of one channel, of a window, without rounding between rows and columns: each result is the mean of the source pixels
// under a triangle.
double triangle(const DecodedImage &image, int channel, double y, double x, double rowScale, double columnScale, const int (&window)[4]) {
  const double height = std::max(rowScale, 1.0), width = std::max(columnScale, 1.0);
  double sum = 0, weights = 0;
  for (int row = window[0]; row < window[0] + window[2]; ++row) {
    for (int column = window[1]; column < window[1] + window[3]; ++column) {
      const double weight = std::max(0.0, 1 - std::fabs(row + 0.5 - y) / height) * std::max(0.0, 1 - std::fabs(column + 0.5 - x) / width);
      sum += weight * image.pixels[3 * (row * image.width + column) + channel];
      weights += weight;
    }
  }
  return sum / weights;
}

struct Description {
  ashlar_rt_dataset dataset = {};
  Description(int height, int width, int shortSide, double leastArea) {
    dataset.format = "images";
    dataset.params[ASHLAR_RT_IMAGE_HEIGHT] = height;
    dataset.params[ASHLAR_RT_IMAGE_WIDTH] = width;
    dataset.params[ASHLAR_RT_IMAGE_SHORT_SIDE] = shortSide;
    dataset.params[ASHLAR_RT_IMAGE_LEAST_AREA] = leastArea;
  }
};

std::unique_ptr<Dataset> opened(const Description &description, const TemporaryFolder &folder, Split split = Split::kTrain) {
  std::unique_ptr<Dataset> dataset;
  const Status status = openDataset(description.dataset, folder.path(), split, dataset);
  INFO(status.message());
  REQUIRE(status.ok());
  return dataset;
}

void write(const TemporaryFolder &folder, const std::string &name, const std::string &bytes) {
  std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
  folder.write(name, bytes);
}

} // namespace

TEST_CASE("images: PNG is decoded exactly, JPEG nearly; gray, alpha, inks and progressive files, too", "[data][images]") {
  DecodedImage image;
  for (const int channels : {1, 3, 4}) {
    const Pixels source = smooth(13, 17, channels);
    REQUIRE(decoded(png(source), image).empty());
    REQUIRE((image.height == 13 && image.width == 17));
    for (int i = 0; i < 13 * 17; ++i) {
      for (int c = 0; c < 3; ++c) {
        // A transparent pixel keeps its color.
        CHECK(image.pixels[3 * i + c] == source.bytes[channels * i + (channels == 1 ? 0 : c)]);
      }
    }
    for (const bool isProgressive : {false, true}) {
      REQUIRE(decoded(jpeg(source, isProgressive), image).empty());
      REQUIRE((image.height == 13 && image.width == 17));
      for (int i = 0; i < 13 * 17; ++i) {
        for (int c = 0; c < 3; ++c) {
          // libjpeg writes inks as Adobe does, inverted: c * k / 255.
          const uint8_t *from = &source.bytes[channels * i];
          const double expected = channels == 1 ? from[0] : channels == 3 ? from[c] : from[c] * from[3] / 255.0;
          CHECK(std::fabs(image.pixels[3 * i + c] - expected) <= 12);
        }
      }
    }
  }
}

TEST_CASE("images: pixels are the numbers in the file, as Pillow reads them, whatever gamma, depth or marker it has", "[data][images]") {
  DecodedImage image, other;
  for (const int channels : {1, 2, 3, 4}) {
    const Pixels source = smooth(13, 17, channels);
    for (const PngForm &form : {PngForm{8, 1.0}, PngForm{8, 0.3}, PngForm{16}, PngForm{16, 1.0}, PngForm{8, 0, PNG_INTERLACE_ADAM7}}) {
      INFO(channels << " channels, " << form.bits << " bits, gamma " << form.gamma << ", interlace " << form.interlace);
      REQUIRE(decoded(png(source, form), image).empty());
      REQUIRE(image.pixels.size() == 3 * 13 * 17);
      for (int i = 0; i < 3 * 13 * 17; ++i) {
        REQUIRE(image.pixels[i] == source.bytes[channels * (i / 3) + (channels < 3 ? 0 : i % 3)]);
      }
    }
  }
  // Palettes, and gray of fewer bits, whose greatest number is white.
  const std::vector<png_color> colors = {{1, 2, 3}, {40, 50, 60}, {200, 0, 9}, {255, 254, 253}};
  const Pixels numbers{2, 4, 1, {0, 1, 2, 3, 3, 2, 1, 0}};
  for (const int bits : {2, 4, 8}) {
    REQUIRE(decoded(png(numbers, {bits, 0, PNG_INTERLACE_NONE, colors}), image).empty());
    for (int i = 0; i < 8; ++i) {
      const png_color &color = colors[numbers.bytes[i]];
      CHECK((image.pixels[3 * i] == color.red && image.pixels[3 * i + 1] == color.green && image.pixels[3 * i + 2] == color.blue));
    }
  }
  REQUIRE(decoded(png(numbers, {2}), image).empty());
  CHECK((image.pixels[0] == 0 && image.pixels[3] == 85 && image.pixels[6] == 170 && image.pixels[9] == 255));
  // Inks are inverted with Adobe's marker and without it.
  const Pixels inks = smooth(13, 17, 4);
  REQUIRE(decoded(jpeg(inks), image).empty());
  const std::string unmarked = jpeg(inks, false, /*hasAdobeMarker=*/false);
  REQUIRE(unmarked.find("Adobe") == std::string::npos);
  REQUIRE(decoded(unmarked, other).empty());
  CHECK(image.pixels == other.pixels);
}

TEST_CASE("images: a part is resized by a triangle filter, larger and smaller", "[data][images]") {
  DecodedImage image;
  image.height = 23;
  image.width = 31;
  for (int i = 0; i < 23 * 31 * 3; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(i * 7919 % 251));
  }
  for (const auto &[top, left, rows, columns, height, width] : {std::array<int, 6>{0, 0, 23, 31, 23, 31},
                                                                {3, 5, 12, 20, 5, 7},
                                                                {0, 10, 23, 4, 40, 9},
                                                                {22, 30, 1, 1, 3, 2},
                                                                {2, 1, 20, 29, 1, 1}}) {
    const double rowScale = static_cast<double>(rows) / height, columnScale = static_cast<double>(columns) / width;
    ResizedPart part{top, left, rows, columns, static_cast<double>(top), static_cast<double>(left), rowScale, columnScale, height, width};
    std::vector<uint8_t> result(height * width * 3);
    resizePart(image, part, result.data());
    const int window[4] = {top, left, rows, columns};
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (int c = 0; c < 3; ++c) {
          const double expected =
              triangle(image, c, top + (y + 0.5) * rowScale, left + (x + 0.5) * columnScale, rowScale, columnScale, window);
          CHECK(std::fabs(result[(y * width + x) * 3 + c] - expected) <= 0.501);
        }
      }
    }
  }
}

TEST_CASE("images: classes by sorted folders, the middle in evaluation, random parts in training", "[data][images]") {
  TemporaryFolder folder;
  const Pixels tall = smooth(61, 40), wide = smooth(33, 90);
  write(folder, "train/cat/b.PNG", png(tall));
  write(folder, "train/cat/a.jpeg", jpeg(wide));
  write(folder, "train/cat/notes.txt", "no image");
  write(folder, "train/Dog/x.jpg", png(wide)); // its bytes decide
  write(folder, "train/readme.md", "no class");
  write(folder, "val/cat/c.png", png(tall));
  write(folder, "val/cat/d.png", png(wide));
  const int height = 16, width = 20, shortSide = 24;
  const Description description(height, width, shortSide, 0.25);
  const auto train = opened(description, folder), eval = opened(description, folder, Split::kEval);
  REQUIRE((train->samples() == 3 && eval->samples() == 2));
  CHECK((train->columns()[0].shape == std::vector<int64_t>{height, width, 3} && train->columns()[0].element == ASHLAR_RT_U8));
  CHECK((sampleOf<int32_t>(*train, 1, 0)[0] == 0 && sampleOf<int32_t>(*train, 1, 1)[0] == 1 && sampleOf<int32_t>(*train, 1, 2)[0] == 1));
  CHECK(sampleOf<int32_t>(*eval, 1, 0)[0] == 1);
  CHECK((train->range(1)->greatest == 1 && eval->range(1)->greatest == 1));

  // torchvision: Resize(24) makes 36 x 24 of 61 x 40 and 24 x 65 of 33 x 90; CenterCrop takes rows from round((36 - 16) / 2) on.
  for (const auto &[sample, source, rows, columns] : {std::tuple<int, const Pixels &, int, int>{0, tall, 36, 24}, {1, wide, 24, 65}}) {
    DecodedImage image{source.height, source.width, source.bytes};
    const auto found = sampleOf<uint8_t>(*eval, 0, sample);
    const int top = static_cast<int>(std::nearbyint((rows - height) / 2.0)),
              left = static_cast<int>(std::nearbyint((columns - width) / 2.0));
    const double rowScale = static_cast<double>(source.height) / rows, columnScale = static_cast<double>(source.width) / columns;
    const int window[4] = {0, 0, source.height, source.width};
    for (int i = 0; i < height * width * 3; ++i) {
      const double y = (top + i / 3 / width + 0.5) * rowScale, x = (left + i / 3 % width + 0.5) * columnScale;
      REQUIRE(std::fabs(found[i] - triangle(image, i % 3, y, x, rowScale, columnScale, window)) <= 0.501);
    }
  }

  // Sample 0 is Dog/x.jpg. The part of a pass follows from the seed; its corners show in the smooth colors, which grow along rows and
  // columns.
  std::vector<uint8_t> first(3 * height * width), again(first), other(first);
  train->read(0, {true, 5, 3, 0}, first.data());
  train->read(0, {true, 5, 3, 0}, again.data());
  CHECK(first == again);
  int different = 0;
  double least = 1, greatest = 0;
  for (uint64_t pass = 0; pass < 200; ++pass) {
    train->read(0, {true, 5, pass, 0}, other.data());
    different += other != first ? 1 : 0;
    // Red is 20 + 200 y / 33, green 20 + 200 x / 90: the area between the centers of the outer pixels, extrapolated.
    const double rows = (other[(height - 1) * width * 3] - other[0]) / 200.0 * 33 * height / (height - 1);
    const double columns = (other[(width - 1) * 3 + 1] - other[1]) / 200.0 * 90 * width / (width - 1);
    const double area = rows * columns / (33 * 90);
    least = std::min(least, area);
    greatest = std::max(greatest, area);
    // From 0.25 of the area on; at most the height and 4/3 of it.
    CHECK((area > 0.2 && rows < 35 && columns < 49 && columns / rows > 0.65 && columns / rows < 1.5));
  }
  CHECK(different >= 198);
  CHECK((least < 0.3 && greatest > 0.4));
  // MIDDLE takes it in training, too.
  const auto middle = opened(Description(height, width, shortSide, 0), folder);
  middle->read(0, {true, 5, 3, 0}, first.data());
  CHECK(first == sampleOf<uint8_t>(*middle, 0, 0));
}

TEST_CASE("images: subfolders of a class are walked in torchvision's order", "[data][images]") {
  TemporaryFolder folder;
  // sorted(os.walk(...)): by the path of the folder, then by the name. Red tells the file.
  const std::vector<std::string> order = {"train/a/0.png",       "train/a/z.png",       "train/a/sub/1.png",
                                          "train/a/sub-b/2.png", "train/a/sub/c/3.png", "train/b/d/4.png"};
  for (size_t i = 0; i < order.size(); ++i) {
    write(folder, order[i], png({4, 4, 1, std::vector<uint8_t>(16, static_cast<uint8_t>(i))}));
  }
  write(folder, "train/a/sub/notes.txt", "no image");
  write(folder, "train/a/.hidden.webp", "not looked at");
  write(folder, "train/a/sub/moves.gif", "no image of torchvision's either");
  std::filesystem::create_directories(folder.file("val"));
  std::filesystem::create_directory_symlink(folder.file("train/b"), folder.file("val/b"));
  const Description description(4, 4, 4, 0);
  const auto train = opened(description, folder);
  REQUIRE(train->samples() == 6);
  const std::array expected = {0, 1, 2, 3, 4, 5};
  for (size_t i = 0; i < order.size(); ++i) {
    INFO(i);
    CHECK(sampleOf<uint8_t>(*train, 0, i)[0] == expected[i]);
    CHECK(sampleOf<int32_t>(*train, 1, i)[0] == (i == 5 ? 1 : 0));
  }
  CHECK(opened(description, folder, Split::kEval)->samples() == 1);
  const auto refusal = [&] {
    std::unique_ptr<Dataset> dataset;
    return openDataset(description.dataset, folder.path(), Split::kTrain, dataset).message();
  };
  for (const char *name : {"5.WebP", "5.bmp", "5.tif", "5.tiff", "5.ppm", "5.pgm"}) {
    write(folder, "train/a/sub/" + std::string(name), "any bytes");
    CHECK_THAT(refusal(), Contains("the image \"" + folder.file("train/a/sub/") + name + "\" is neither .jpg, .jpeg nor .png") &&
                              Contains("convert it"));
    std::filesystem::remove(folder.file("train/a/sub/" + std::string(name)));
  }
  std::filesystem::create_directory_symlink(folder.file("train/a"), folder.file("train/a/sub/again"));
  CHECK_THAT(refusal(), Contains("folders deep; remove the link that leads back"));
}

TEST_CASE("images: an image that does not fit into memory is named", "[data][images]") {
  TemporaryFolder folder;
  const Description description(8, 8, 9, 0.08);
  const Pixels large{2000, 3000, 1, std::vector<uint8_t>(2000 * 3000)};
  for (const std::string &bytes : {png(large), jpeg(large)}) {
    write(folder, "train/a/x.png", bytes);
    const auto dataset = opened(description, folder);
    std::vector<uint8_t> pixels(dataset->scratchBytes(0), 1);
    if (!ashlar::test::limitAllocations(10 << 20)) {
      WARN("skipped: a sanitizer has its own malloc");
      return;
    }
    dataset->read(0, SampleRandom::evaluated(0), pixels.data());
    ashlar::test::limitAllocations(SIZE_MAX);
    CHECK(std::count(pixels.begin(), pixels.end(), 0) == 192);
    CHECK(dataset->check().message() == "cannot read the image \"" + folder.file("train/a/x.png") +
                                            "\": its 2000 x 3000 pixels do not fit into memory; scale it down, or raise the limit of the "
                                            "process (ulimit -v)");
  }
}

TEST_CASE("images: damaged files and wrong folders are named", "[data][images]") {
  TemporaryFolder folder;
  const Description description(8, 8, 9, 0.08);
  const auto refusal = [&](Split split = Split::kTrain) {
    std::unique_ptr<Dataset> dataset;
    const Status status = openDataset(description.dataset, folder.path(), split, dataset);
    REQUIRE(!status.ok());
    CHECK(status.message().find('\n') == std::string::npos);
    return status.message();
  };
  CHECK_THAT(refusal(), Contains("cannot open the folder \"" + folder.file("train") + "\""));
  std::filesystem::create_directories(folder.file("train"));
  CHECK_THAT(refusal(), Contains("no folder of a class is in \"" + folder.file("train") + "\""));
  std::filesystem::create_directories(folder.file("train/a"));
  CHECK_THAT(refusal(), Contains("no .jpg, .jpeg or .png file is in the class's folder \"" + folder.file("train/a") + "\""));
  const std::string good = jpeg(smooth(64, 64));
  write(folder, "train/a/x.jpg", good);
  CHECK_THAT(refusal(Split::kEval), Contains("cannot open the folder \"" + folder.file("val") + "\""));
  write(folder, "val/b/x.jpg", good);
  CHECK_THAT(refusal(Split::kEval), Contains("val/b\" is a class that \"" + folder.file("train") + "\" does not have"));

  const std::string picture = png(smooth(64, 64));
  std::string wrong = good;
  wrong[0] = 'x';
  for (const auto &[bytes, text] : {std::pair<std::string, const char *>{good.substr(0, good.size() / 2), "libjpeg: Premature end of JPEG"},
                                    {good.substr(0, 100), "libjpeg: "},
                                    {wrong, "it begins neither as a JPEG nor as a PNG file"},
                                    {"", "it begins neither"},
                                    {picture.substr(0, picture.size() / 2), "libpng: "},
                                    {picture.substr(0, 20), "libpng: "}}) {
    INFO(text);
    write(folder, "train/a/x.jpg", bytes);
    const auto dataset = opened(description, folder);
    CHECK(dataset->check().ok());
    const auto found = sampleOf<uint8_t>(*dataset, 0, 0);
    CHECK(std::count(found.begin(), found.end(), 0) == 192);
    CHECK_THAT(dataset->check().message(), Contains("cannot read the image \"" + folder.file("train/a/x.jpg") + "\"") && Contains(text));
  }
  // A header that announces too many pixels: refused before memory is taken. 60,000 x 60,000 in the frame header of JPEG.
  std::string large = good;
  const size_t frame = large.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  large.replace(frame + 5, 4, "\xea\x60\xea\x60");
  DecodedImage image;
  CHECK_THAT(decoded(large, image), Contains("it announces 60000 x 60000 pixels"));
}

} // namespace ashlar::test::images_test

// The banks of shared memory that convolutions' tiles meet (src/kernels/conv/walked.cuh), and attention's results, counted by the functions that the
// kernels are compiled with. A warp's access of 16 bytes a lane is served in four parts of eight lanes, and one of ldmatrix a matrix of
// eight lines at a time: in each, 128 bytes must lie in 32 different banks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/file.h"
#include "kernels/attention/hopper.h"
#include "kernels/common/swizzle.h"
#include "kernels/conv/walked.h"
#include "kernels/gemm/exchange.h"
#include "kernels/gemm/hopper.h"
#include "ops/cuda/banks.h"
#include "support/paths.h"

namespace smelt::ops {
namespace {

namespace k = smelt::kernels;

template <int LineBytes> uint32_t place(uint32_t line, uint32_t byte) {
  return k::swizzled<LineBytes>(line, byte / 16) + byte % 16;
}

/// What lanes `first` … first + lanes - 1 of every warp write, by copies of Copy bytes.
template <int LineBytes, int Copy, int Threads> void expect_copies_without_conflicts() {
  using Copies = k::WalkedCopies<LineBytes, Copy, Threads>;
  constexpr int lanes = 128 / Copy;  // that a part serves
  for (int first = 0; first < Threads; first += std::min(lanes, 32)) {
    std::vector<uint32_t> addresses;
    for (int t = first; t < first + std::min(lanes, 32); ++t)
      addresses.push_back(place<LineBytes>(static_cast<uint32_t>(Copies::line(t, 0)), static_cast<uint32_t>(Copies::byte(t))));
    EXPECT_EQ(busiest(addresses, Copy), 1) << LineBytes << " bytes a line, copies of " << Copy << ", threads from " << first;
  }
}

TEST(Banks, of_copies_of_pixels_meet_once) {
  expect_copies_without_conflicts<64, 16, 128>();
  expect_copies_without_conflicts<64, 8, 128>();
  expect_copies_without_conflicts<64, 4, 128>();
  expect_copies_without_conflicts<128, 16, 128>();
  expect_copies_without_conflicts<128, 16, 256>();
  expect_copies_without_conflicts<128, 8, 256>();
  expect_copies_without_conflicts<128, 4, 256>();
}

/// Operands of one value a column, where lanes have neighbouring columns: each column has a place of its own, and a quarter of a warp,
/// two rows of four lanes, reads vectors from all banks but once, whose lanes' own columns they are.
TEST(Banks, of_columns_that_lanes_read_meet_once) {
  for (const int width : {1, 2, 4, 8, 16})
    for (const int bytes : {2, 4}) {
      const int part = width % 4 == 0 ? 4 : width, columns = 4 * width;
      std::set<int> places;
      for (int c = 0; c < 2 * columns; ++c) places.insert(k::lane_column_place(c, width, part));
      EXPECT_EQ(std::ssize(places), 2 * columns);
      EXPECT_EQ(*places.rbegin(), 2 * columns - 1) << width;
      for (int from = 0; from < width; from += part) {
        std::vector<uint32_t> addresses;
        for (int lane = 0; lane < 8; ++lane) {
          const int first = columns + lane % 4 * width + from, place = k::lane_column_place(first, width, part);
          EXPECT_EQ(place, columns + from * 4 + lane % 4 * part) << "as the kernel has it";
          for (int e = 1; e < part; ++e) EXPECT_EQ(k::lane_column_place(first + e, width, part), place + e);
          addresses.push_back(static_cast<uint32_t>(place * bytes));
        }
        EXPECT_EQ(busiest(addresses, static_cast<uint32_t>(part * bytes)), 1)
            << width << " columns of a lane, " << bytes << " bytes";
      }
    }
}

/// Bytes whose lines run along M or N: what ldmatrix_trans reads at once, two neighbouring lines of every four, and what copies write.
template <int LineBytes> void expect_pairs_of_lines(int often) {
  constexpr uint32_t vectors = LineBytes / 16;
  std::set<uint32_t> places;
  for (uint32_t line = 0; line < 64; ++line)
    for (uint32_t v = 0; v < vectors; ++v) places.insert(k::swizzled_pairs<LineBytes>(line, v));
  EXPECT_EQ(places.size(), 64 * vectors);
  EXPECT_EQ(*places.rbegin(), 64 * LineBytes - 16U);
  for (uint32_t step = 0; step < 64; step += 32)
    for (uint32_t v = 0; v < vectors; ++v)
      for (uint32_t matrix = 0; matrix < 4; ++matrix) {
        std::vector<uint32_t> addresses;
        for (uint32_t lane = matrix * 8; lane < matrix * 8 + 8; ++lane)
          addresses.push_back(k::swizzled_pairs<LineBytes>(step + k::paired_line(lane), v));
        EXPECT_EQ(busiest(addresses, 16), often) << LineBytes << " bytes a line, matrix " << matrix;
      }
  for (uint32_t first = 0; first < 64 * vectors; first += 8) {
    std::vector<uint32_t> addresses;
    for (uint32_t copy = first; copy < first + 8; ++copy)
      addresses.push_back(k::swizzled_pairs<LineBytes>(copy / vectors, copy % vectors));
    EXPECT_EQ(busiest(addresses, 16), 1) << LineBytes << " bytes a line, copies from " << first;
  }
}

TEST(Banks, of_bytes_across_k_meet_once_in_lines_of_64_and_more) {
  expect_pairs_of_lines<16>(2);
  expect_pairs_of_lines<32>(2);
  expect_pairs_of_lines<64>(1);
  expect_pairs_of_lines<128>(1);
  expect_pairs_of_lines<256>(1);
}

/// ldmatrix_trans gives lane (g, t) of a matrix of eight lines the pairs g of lines 2 t and 2 t + 1; of the four matrices' pairs the even
/// and the odd bytes are words of four steps of K, of columns 2 g and 2 g + 1.
TEST(Banks, of_bytes_across_k_make_words_of_four_steps_of_a_column) {
  const auto byte = [](uint32_t line, uint32_t column) { return line << 4 | column; };  // what lies there
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    uint32_t pairs[4][4];  // bytes
    for (uint32_t m = 0; m < 4; ++m)
      for (uint32_t b = 0; b < 4; ++b) pairs[m][b] = byte(k::paired_line(m * 8 + 2 * t + b / 2), 2 * g + b % 2);
    for (const bool odd : {false, true})
      for (uint32_t half = 0; half < 2; ++half)
        for (uint32_t b = 0; b < 4; ++b) {
          const uint32_t from = (odd ? k::odd_bytes : k::even_bytes) >> 4 * b & 7;  // as __byte_perm chooses
          EXPECT_EQ(pairs[2 * half + from / 4][from % 4], byte(half * 16 + 4 * t + b, 2 * g + (odd ? 1 : 0))) << lane;
        }
  }
}

/// Weights lie in memory as stages have them: thread t copies vector t.
TEST(Banks, of_copies_of_weights_meet_once) {
  for (uint32_t first = 0; first < 256; first += 8) {
    std::vector<uint32_t> addresses;
    for (uint32_t t = first; t < first + 8; ++t) addresses.push_back(t * 16);
    EXPECT_EQ(busiest(addresses, 16), 1);
  }
}

template <int LineBytes> void expect_fragments_without_conflicts() {
  for (const auto fragment : {k::left_fragment, k::right_fragments})
    for (uint32_t line = 0; line < 256; line += 8)
      for (uint32_t step = 0; step < LineBytes / 32; ++step)
        for (uint32_t matrix = 0; matrix < 4; ++matrix) {
          std::vector<uint32_t> addresses;
          for (uint32_t lane = matrix * 8; lane < matrix * 8 + 8; ++lane) {
            const k::LaneAddress at = fragment(lane);
            addresses.push_back(place<LineBytes>(line + at.line, step * 32 + at.byte));
          }
          EXPECT_EQ(busiest(addresses, 16), 1) << LineBytes << " bytes a line, line " << line << ", step " << step;
        }
}

TEST(Banks, of_fragments_meet_once) {
  expect_fragments_without_conflicts<64>();
  expect_fragments_without_conflicts<128>();
}

/// A warp writes two neighbouring sums a lane, half of it at a time, and reads four, a quarter at a time: eight lanes have a row of 64.
TEST(Banks, of_sums_that_are_exchanged_meet_once) {
  const auto place = [](uint32_t row, uint32_t column) { return (row * k::exchange_row(64) + k::exchanged(column)) * 4; };
  std::set<uint32_t> places;
  for (uint32_t column = 0; column < 64; ++column) places.insert(k::exchanged(column));
  EXPECT_EQ(places.size(), 64u);
  EXPECT_EQ(*places.rbegin(), 63u);
  for (uint32_t j = 0; j < 64; j += 8)
    for (uint32_t half = 0; half < 32; half += 16) {
      std::vector<uint32_t> addresses;
      for (uint32_t lane = half; lane < half + 16; ++lane) addresses.push_back(place(lane / 4, j + lane % 4 * 2));
      EXPECT_EQ(busiest(addresses, 8), 1) << j;
    }
  for (uint32_t row = 0; row < 16; ++row)
    for (const uint32_t four : {0u, 4u}) {
      std::vector<uint32_t> addresses;
      for (uint32_t lane = 0; lane < 8; ++lane) addresses.push_back(place(row, lane * 8 + four));
      EXPECT_EQ(busiest(addresses, 16), 1) << row;
    }
}

/// A warp writes two columns a lane to where a tensor map stores them from.
template <int Columns> void expect_results_without_conflicts() {
  std::set<uint32_t> words;
  for (uint32_t warp = 0; warp < 4; ++warp)
    for (uint32_t r = 0; r < 2; ++r)
      for (uint32_t c = 0; c < Columns / 8; ++c) {
        std::vector<uint32_t> addresses;
        for (uint32_t lane = 0; lane < 32; ++lane) addresses.push_back(k::hopper_attention_result<Columns>(warp, lane, r, c));
        EXPECT_EQ(busiest(addresses, 4), 1) << "warp " << warp << ", rows " << r << ", columns " << c;
        words.insert(addresses.begin(), addresses.end());
      }
  EXPECT_EQ(words.size(), size_t{k::hopper_attention_rows * Columns / 2});
  EXPECT_LT(*words.rbegin(), uint32_t{k::hopper_attention_rows * Columns * 2});
}
TEST(Banks, of_attention_s_results_meet_once_and_all_are_written) {
  expect_results_without_conflicts<32>();
  expect_results_without_conflicts<64>();
}

TEST(Banks, are_counted) {
  std::vector<uint32_t> column;  // lines of 128 bytes as they come: all eight vectors in four banks
  for (uint32_t line = 0; line < 8; ++line) column.push_back(line * 128);
  EXPECT_EQ(busiest(column, 16), 8);
}

/// The epilogue has no exchange: each lane's sums are of neighbouring channels, and the four lanes of a row have whole sectors.
TEST(Walked, channels_of_a_lane_are_neighbours_and_all_channels_have_a_column) {
  for (const int warp_n : {16, 32, 64})
    for (int width = 2; width <= warp_n / 4; width *= 2) {
      SCOPED_TRACE(fmt::format("{} columns, {} side by side", warp_n, width));
      std::set<int> all;
      for (int column = 0; column < warp_n; ++column) all.insert(k::walked_channel(column, width));
      EXPECT_EQ(all.size(), static_cast<size_t>(warp_n));
      EXPECT_EQ(*all.rbegin(), warp_n - 1);
      for (int part = 0; part < warp_n / 4 / width; ++part)  // finish_in_registers' q
        for (int lane = 0; lane < 4; ++lane)
          for (int e = 0; e < width; ++e) {
            const int fragment = part * (width / 2) + e / 2, column = 8 * fragment + 2 * lane + e % 2;
            EXPECT_EQ(k::walked_channel(column, width), part * 4 * width + lane * width + e);
          }
    }
}

/// docs/conv-layout.svg: where the vectors of eight lines of a stage lie, for lines of 64 and 128 bytes, and whose sums are which
/// channels.
class Picture {
 public:
  std::string text() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
        "font-size=\"11\">\n{}</svg>\n",
        width, y_ + 10, body_);
  }
  void title(std::string_view t) {
    y_ += 24;
    body_ += fmt::format("<text x=\"10\" y=\"{}\" font-weight=\"bold\">{}</text>\n", y_, t);
    y_ += 10;
  }
  /// Rows of 128 bytes, banks from left to right; each vector names its line, and its colour is its place along the line.
  template <int LineBytes> void stage(uint32_t lines) {
    for (uint32_t line = 0; line < lines; ++line)
      for (uint32_t vector = 0; vector < LineBytes / 16; ++vector) {
        const uint32_t at = k::swizzled<LineBytes>(line, vector);
        cell(at % 128 / 16, at / 128, vector * 45, fmt::format("{}.{}", line, vector));
      }
    y_ += lines * LineBytes / 128 * 20;
  }
  /// The channels of a warp's columns, in their order: lane t's.
  void channels(int columns, int side_by_side) {
    std::vector<int> lane(static_cast<size_t>(columns));
    for (int c = 0; c < columns; ++c) lane[static_cast<size_t>(k::walked_channel(c, side_by_side))] = c % 8 / 2;
    for (int c = 0; c < columns; ++c)
      body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"8\" height=\"16\" fill=\"hsl({}, 70%, 80%)\" stroke=\"#888\"/>\n",
                           10 + c * 8, y_, lane[static_cast<size_t>(c)] * 90);
    y_ += 20;
  }

 private:
  static constexpr int width = 540;
  void cell(uint32_t column, uint32_t row, uint32_t hue, const std::string& label) {
    const uint32_t x = 10 + column * 64, y = static_cast<uint32_t>(y_) + row * 20;
    body_ += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"64\" height=\"20\" fill=\"hsl({}, 70%, 85%)\" stroke=\"#888\"/>"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        x, y, hue, x + 32, y + 14, label);
  }
  std::string body_;
  uint32_t y_ = 0;
};

TEST(Walked, picture_in_the_docs_is_what_the_code_draws) {
  Picture p;
  p.title("Lines of 128 bytes: line.vector, 32 banks from left to right");
  p.stage<128>(8);
  p.title("Lines of 64 bytes, two to a row of banks");
  p.stage<64>(8);
  p.title("64 channels of a warp, coloured by the lane of four that has them: 16 side by side, 8, 4");
  for (const int side_by_side : {16, 8, 4}) p.channels(64, side_by_side);
  const std::filesystem::path kept = source_dir() / "docs/conv-layout.svg", drawn = build_dir() / "conv-layout.svg";
  write_text(drawn, p.text());
  EXPECT_EQ(std::filesystem::exists(kept) ? read_text(kept) : "", p.text()) << "if that is meant: cp " << drawn << " " << kept;
}

}  // namespace
}  // namespace smelt::ops

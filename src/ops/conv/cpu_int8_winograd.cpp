// Convolution of 8-bit integers by a 3 × 3 window in Winograd's form F(2 × 2, 3 × 3), exact: with its matrix G doubled,
// transformed weights are whole (9 · 255 at most) and sums are four times what they should be. The image's transform has 11 bits,
// products are 16-bit pairs with 32-bit sums, and sums wrap: whatever they do between, the last of them fits, so that dividing it
// by 4 is exact. 16 multiplications a tile of 2 × 2 outputs instead of 36. Source: as for winograd.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "ops/conv/cpu_winograd_plan.h"
#include "ops/conv/int8_problem.h"
#include "ops/conv/simd/int8_winograd.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/strides.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/igemm/integer.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t positions = winograd_positions;
constexpr int64_t run_tiles = 8;  // side by side, between the transform of the sums and the epilogue

int64_t pairs(int64_t channels) { return (channels + 1) / 2; }

/// 2 G.
constexpr int32_t doubled_g[4][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};

class Int8Winograd final : public Kernel {
 public:
  explicit Int8Winograd(const Request& q)
      : p_(q.problem),
        depth_(pairs(p_.channels())),
        plan_(winograd_plan(p_, depth_, q.threads)),
        threads_(q.threads),
        x_input_(q.at.x),
        from_(memory_strides(q.node.inputs[q.at.x])),
        image_zero_(q),
        signed_(p_.input == DType::i8),
        start_(start_of_sums(q)),
        outside_(static_cast<size_t>(p_.channels())),
        epilogue_(q.node, q.at.operands, 1, q.quantization().scales) {
    for (const igemm::Part& part : igemm::split(std::vector<int64_t>{depth_}))
      parts_.push_back(static_cast<int32_t>(part.length));
    const auto make = [&] { return transformed(q); };
    packed_ =
        q.node.weights ? q.node.weights->packed(q.weight().constant, int8_packing(q, "winograd-pairs").text(), make) : make();
  }

  int64_t workspace() const override { return threads_ * (own_bytes() + epilogue_.scratch()); }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const CpuEpilogue::Runner finish(epilogue_, b, memory + threads_ * own_bytes());
    const uint8_t* image = static_cast<const uint8_t*>(b.inputs[x_input_]);
    zero_ = image_zero_.of(b);
    std::ranges::fill(outside_, static_cast<uint8_t>(zero_));
    const int64_t splits = plan_.splits(p_.outputs());
    parallel_dynamic(threads_, splits * plan_.blocks(), [&](int64_t task, int thread) {
      char* own = memory + thread * own_bytes();
      const int64_t tile = task / splits * plan_.block, column = task % splits * plan_.columns;
      const Task t{tile,
                   std::min(plan_.block, plan_.tiles - tile),
                   column,
                   std::min(plan_.columns, p_.outputs() - column),
                   reinterpret_cast<int16_t*>(own),
                   reinterpret_cast<int32_t*>(own + input_bytes()),
                   reinterpret_cast<int32_t*>(own + input_bytes() + sums_bytes()),
                   thread};
      transform_input(image, t);
      for (int64_t first = 0; first < t.columns; first += plan_.slice) {
        const int64_t columns = std::min(plan_.slice, t.columns - first);
        for (int64_t i = 0; i < positions; ++i) multiply(t, i, t.column + first, columns);
        transform_output(finish, t, t.column + first, columns);
      }
    });
  }

 private:
  struct Task {
    int64_t tile, tiles, column, columns;
    int16_t* input;    // [16][tiles][2 · depth]
    int32_t* sums;     // [16][tiles][slice]
    int32_t* outputs;  // [2][2 · run_tiles][slice]
    int thread;
  };

  int64_t input_step() const { return winograd_position_step(plan_.block * depth_); }
  int64_t sums_step() const { return winograd_position_step(plan_.block * plan_.slice); }
  int64_t input_bytes() const { return aligned(positions * input_step() * 4); }
  int64_t sums_bytes() const { return aligned(positions * sums_step() * 4); }
  int64_t own_bytes() const { return input_bytes() + sums_bytes() + aligned(4 * run_tiles * plan_.slice * 4); }

  /// 2 G g 2 Gᵀ of every pair of channels, packed for the tiles: 16 matrices [pairs of C, M].
  Tensor transformed(const Request& q) const {
    const int64_t one = igemm::packed_floats(depth_, p_.outputs());
    Tensor t = Tensor::empty(DType::i16, {2 * positions * one});
    for (int64_t i = 0; i < positions; ++i) {
      igemm::pack_pairs(t.data<int16_t>() + 2 * i * one, depth_, p_.outputs(), [&](int64_t pair, int64_t m, int half) -> int16_t {
        const int64_t c = 2 * pair + half;
        if (c >= p_.channels()) return 0;
        int32_t sum = 0;
        for (int64_t tap = 0; tap < 9; ++tap)
          sum += doubled_g[i / 4][tap / 3] * int8_weight(q, m, c, tap) * doubled_g[i % 4][tap % 3];
        return static_cast<int16_t>(sum);
      });
    }
    return t;
  }

  void transform_input(const uint8_t* image, const Task& t) const {
    const auto transform = avx2::winograd_bytes_table().input;
    WinogradPixels w{{}, p_.channels(), zero_, signed_};
    const int64_t height = p_.x[0].shape[2], width = p_.x[0].shape[3];
    for (int64_t n = 0; n < t.tiles; ++n) {
      const WinogradPlan::Origin at = plan_.origin(t.tile + n);
      for (int64_t dy = 0; dy < 4; ++dy) {
        const int64_t y = at.y + dy - p_.pad_begin[0];
        for (int64_t dx = 0; dx < 4; ++dx) {
          const int64_t x = at.x + dx - p_.pad_begin[1];
          const bool inside = y >= 0 && x >= 0 && y < height && x < width;
          w.pixels[4 * dy + dx] = inside ? image + at.n * from_[0] + y * from_[2] + x * from_[3] : outside_.data();
        }
      }
      transform(w, t.input + n * 2 * depth_, 2 * input_step());
    }
  }

  void multiply(const Task& t, int64_t i, int64_t column, int64_t columns) const {
    const float* input = reinterpret_cast<const float*>(t.input) + i * input_step();
    const float* weights = static_cast<const float*>(packed_.raw()) + i * igemm::packed_floats(depth_, p_.outputs());
    float* sums = reinterpret_cast<float*>(t.sums) + i * sums_step();
    winograd_multiply(igemm::pair_tiles(), {input, weights, sums, t.tiles, depth_, p_.outputs(), plan_.slice}, parts_, column,
                      columns);
  }

  void transform_output(const igemm::Finish& finish, const Task& t, int64_t column, int64_t columns) const {
    const auto transform = avx2::winograd_bytes_table().output;
    const int64_t line = 2 * run_tiles * plan_.slice;
    for (int64_t n = 0; n < t.tiles;) {
      const WinogradPlan::Origin at = plan_.origin(t.tile + n);
      const int64_t count = std::min({run_tiles, t.tiles - n, plan_.tiles_x - at.x / 2});  // tiles side by side
      for (int64_t i = 0; i < count; ++i) {
        int32_t* first = t.outputs + 2 * i * plan_.slice;
        int32_t* const outputs[4] = {first, first + plan_.slice, first + line, first + line + plan_.slice};
        transform(t.sums + (n + i) * plan_.slice, sums_step(), start_.data() + column, columns, outputs);
      }
      const int64_t pixels = std::min(2 * count, p_.y[3] - at.x);
      for (int64_t dy = 0; dy < 2 && at.y + dy < p_.y[2]; ++dy) {
        const float* sums = reinterpret_cast<const float*>(t.outputs + dy * line);
        finish.take({(at.n * p_.y[2] + at.y + dy) * p_.y[3] + at.x, pixels, column, columns, sums, plan_.slice, t.thread});
      }
      n += count;
    }
  }

  Problem p_;
  int64_t depth_;  // pairs of channels
  WinogradPlan plan_;
  int threads_;
  size_t x_input_;
  Shape from_;
  ImageZero image_zero_;
  int32_t zero_ = 0;  // of the run
  bool signed_;
  std::vector<int32_t> start_;
  std::vector<uint8_t> outside_;  // what a tile reads outside the image
  std::vector<int32_t> parts_;    // of the pairs
  CpuEpilogue epilogue_;
  Tensor packed_;
};

std::optional<Refusal> rejects(const Request& q) {
  const Problem& p = q.problem;
  if (auto why = rejects_int8(q)) return why;
  if (p.group != 1) return refuse(Reason::wrong_attribute, "group = {}; it knows 1", p.group);
  if (p.w[2] != 3 || p.w[3] != 3) return refuse(Reason::wrong_shape, "a window of {} x {}; it knows 3 x 3", p.w[2], p.w[3]);
  for (size_t a = 0; a < 2; ++a) {
    if (p.stride[a] != 1 || p.dilation[a] != 1)
      return refuse(Reason::wrong_attribute, "stride {} and dilation {}; it knows 1", p.stride[a], p.dilation[a]);
  }
  constexpr int64_t fewest_channels = 8;
  if (p.channels() < fewest_channels)
    return refuse(Reason::not_profitable, "{} channels; transforms pay from {} on", p.channels(), fewest_channels);
  const BoundTensor& x = q.node.inputs[q.at.x];
  if (!is_channels_last(x)) return refuse(Reason::wrong_layout, "input layout {}; it reads nhwc", name(x.layout));
  // Four times a result must fit 32 bits, whatever the image: 255 times the weights' magnitudes.
  if (9 * p.channels() * 255 * 255 < int64_t{1} << 29) return std::nullopt;
  for (int64_t m = 0; m < p.y[1]; ++m) {
    int64_t sum = 0;
    for (int64_t c = 0; c < p.w[1]; ++c)
      for (int64_t tap = 0; tap < 9; ++tap) sum += std::abs(int8_weight(q, m, c, tap));
    if (sum * 255 >= int64_t{1} << 29)
      return refuse(Reason::not_exact, "weights of channel {} whose magnitudes add up to {}; at most {}", m, sum,
                    (1 << 29) / 255);
  }
  return std::nullopt;
}

/// On one Zen 3 core at 3.2 GHz, measured: the products reach 150 GFLOP/s, the transforms 6 elements a nanosecond, and the
/// weights come from memory at 12 GB/s.
double estimate_us(const Problem& p, int threads) {
  const WinogradPlan s = winograd_plan(p, pairs(p.channels()), threads);
  const double weights = static_cast<double>(positions * p.channels()) * static_cast<double>(p.outputs());
  const double products = 2 * weights * static_cast<double>(s.tiles) / 150e3;
  const double transforms = static_cast<double>(s.tiles * positions * (p.channels() + p.outputs())) / 6e3;
  return 3 + (products + transforms + 2 * weights / 12e3) / threads;
}

}  // namespace

void offer_int8_winograd(const Request& q, Offer& offer) {
  if (const auto why = rejects(q)) return offer.refuse("winograd", *why);
  offer.candidates.push_back(
      {"winograd", "f2x3 pairs", estimate_us(q.problem, q.threads), [q] { return std::make_unique<Int8Winograd>(q); }});
}

}  // namespace smelt::ops::conv

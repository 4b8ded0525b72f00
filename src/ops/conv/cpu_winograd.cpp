// Convolution by a 3 × 3 window in Winograd's form F(2 × 2, 3 × 3): each tile of 2 × 2 outputs takes 16 multiplications a pair of
// channels where the direct form takes 36, and in float32 its error is no larger, for its sums are shorter. After "Fast
// Algorithms for Convolutional Neural Networks" (Lavin, Gray, 2015). A task is some tiles by some output channels: it transforms
// the tiles of all inputs (a concatenation is read where it lies), multiplies the 16 positions as matrices, block by block of
// columns, and transforms back into the output. An infinity or a NaN in the image reaches every output of the tiles that read it.
#include <fmt/core.h>

#include <algorithm>

#include "ops/conv/cpu_winograd_plan.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/winograd.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t positions = winograd_positions;

/// G g Gᵀ of a window of 3 × 3, 16 values `step` apart.
void transform_window(const float* g, float* to, int64_t step) {
  double half[4][3];  // G g
  for (int x = 0; x < 3; ++x) {
    const double sides = 0.5 * (double{g[x]} + g[6 + x]), middle = 0.5 * g[3 + x];
    half[0][x] = g[x], half[1][x] = sides + middle, half[2][x] = sides - middle, half[3][x] = g[6 + x];
  }
  for (int y = 0; y < 4; ++y) {
    const double sides = 0.5 * (half[y][0] + half[y][2]), middle = 0.5 * half[y][1];
    float* row = to + 4 * y * step;
    row[0] = static_cast<float>(half[y][0]), row[step] = static_cast<float>(sides + middle);
    row[2 * step] = static_cast<float>(sides - middle), row[3 * step] = static_cast<float>(half[y][2]);
  }
}

FormKind form_of(const Problem& p) { return {DType::f32, {positions * igemm::packed_floats(p.channels(), p.outputs())}}; }

/// G g Gᵀ of every pair of channels, packed for the tiles: 16 matrices [C, M], a panel of columns of all of them at a time.
Tensor transformed(const Tensor& weights, const Problem& p) {
  const Tensor source = weights.cast(DType::f32);
  const int64_t channels = p.channels(), outputs = p.outputs(), one = igemm::packed_floats(channels, outputs);
  const int64_t panel = std::min<int64_t>(igemm::tile_columns, outputs), step = channels * panel;
  std::vector<int64_t> rows;
  for (int64_t c = 0; c < channels; ++c) rows.push_back(c * panel);
  std::vector<float> matrices(static_cast<size_t>(positions * step));
  Tensor packed = Tensor::empty(DType::f32, form_of(p).shape);
  for (int64_t first = 0; first < outputs; first += panel) {
    const int64_t columns = std::min(panel, outputs - first);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t m = 0; m < columns; ++m)
        transform_window(source.data<float>() + ((first + m) * channels + c) * 9, matrices.data() + c * panel + m, step);
    for (int64_t i = 0; i < positions; ++i)
      igemm::pack(packed.data<float>() + i * one + first * channels, matrices.data() + i * step, rows, 1, columns);
  }
  return packed;
}

class WinogradConv final : public Kernel {
 public:
  WinogradConv(const BoundNode& node, const Problem& p, const Arguments& at, int threads)
      : p_(p),
        plan_(winograd_plan(p, p.channels(), threads)),
        threads_(threads),
        epilogue_(node, at.operands, 1, bias(node, at)) {
    int64_t widest = 0;
    for (size_t i = 0; i < p.x.size(); ++i) {
      const Shape s = memory_strides(node.inputs[i]);
      sources_.push_back({p.x[i].shape[1], p.x[i].upsample, s[0], s[2], s[3]});
      widest = std::max(widest, p.x[i].shape[1]);
    }
    zeros_.assign(static_cast<size_t>(widest), 0.0f);
    for (const igemm::Part& part : igemm::split(std::vector<int64_t>{p.channels()}))
      parts_.push_back(static_cast<int32_t>(part.length));
    const Tensor& w = node.inputs[at.w].constant;
    const auto make = [&] { return transformed(w, p); };
    packed_ = node.weights ? node.weights->packed(w, Key("winograd").text(), form_of(p), make) : make();
    const Shape s = memory_strides(node.outputs[0]);
    y_n_ = s[0], y_y_ = s[2], y_x_ = s[3];
  }

  int64_t workspace() const override { return threads_ * (input_bytes() + sums_bytes() + row_bytes() + epilogue_.scratch()); }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const int64_t each = input_bytes() + sums_bytes() + row_bytes();
    const CpuEpilogue::Runner runner(epilogue_, b, memory + threads_ * each);
    const int64_t splits = plan_.splits(p_.outputs()), blocks = plan_.blocks();
    parallel_dynamic(threads_, splits * blocks, [&](int64_t task, int thread) {
      char* own = memory + thread * each;
      const Task t{task / splits * plan_.block,
                   std::min(plan_.block, plan_.tiles - task / splits * plan_.block),
                   task % splits * plan_.columns,
                   std::min(plan_.columns, p_.outputs() - task % splits * plan_.columns),
                   reinterpret_cast<float*>(own),
                   reinterpret_cast<float*>(own + input_bytes()),
                   reinterpret_cast<float*>(own + input_bytes() + sums_bytes()),
                   thread};
      compute(b, runner, t);
    });
  }

 private:
  struct Source {
    int64_t channels, upsample, n, y, x;  // strides
  };
  struct Task {
    int64_t tile, tiles, column, columns;
    float* input;  // [16][tiles][C]
    float* sums;   // [16][tiles][slice]
    float* row;    // [4][slice]: outputs that the evaluator takes
    int thread;
  };
  int64_t input_step() const { return winograd_position_step(plan_.block * p_.channels()); }
  int64_t sums_step() const { return winograd_position_step(plan_.block * plan_.slice); }
  int64_t input_bytes() const { return aligned(positions * input_step() * 4); }
  int64_t sums_bytes() const { return aligned(positions * sums_step() * 4); }
  int64_t row_bytes() const { return epilogue_.simple() ? 0 : aligned(4 * plan_.slice * 4); }

  void compute(const Buffers& b, const CpuEpilogue::Runner& runner, const Task& t) const {
    transform_input(b, t);
    for (int64_t first = 0; first < t.columns; first += plan_.slice) {
      const int64_t columns = std::min(plan_.slice, t.columns - first);
      for (int64_t i = 0; i < positions; ++i) multiply(t, i, t.column + first, columns);
      transform_output(b, runner, t, t.column + first, columns);
    }
  }

  void transform_input(const Buffers& b, const Task& t) const {
    const ops::conv::WinogradTable& kernels = avx2::winograd_table();
    const float* pixels[positions];
    for (int64_t n = 0; n < t.tiles; ++n) {
      const WinogradPlan::Origin at = plan_.origin(t.tile + n);
      float* to = t.input + n * p_.channels();
      for (size_t s = 0; s < sources_.size(); ++s) {
        const Source& in = sources_[s];
        const int64_t height = p_.x[s].shape[2] * in.upsample, width = p_.x[s].shape[3] * in.upsample;
        const float* image = static_cast<const float*>(b.inputs[s]) + at.n * in.n;
        for (int64_t dy = 0; dy < 4; ++dy) {
          const int64_t y = at.y + dy - p_.pad_begin[0];
          for (int64_t dx = 0; dx < 4; ++dx) {
            const int64_t x = at.x + dx - p_.pad_begin[1];
            const bool inside = y >= 0 && x >= 0 && y < height && x < width;
            pixels[4 * dy + dx] = inside ? image + y / in.upsample * in.y + x / in.upsample * in.x : zeros_.data();
          }
        }
        kernels.input(pixels, in.channels, to, input_step());
        to += in.channels;
      }
    }
  }

  /// sums[i] = input[i] · weights[i] for these columns.
  void multiply(const Task& t, int64_t i, int64_t column, int64_t columns) const {
    const int64_t channels = p_.channels();
    const float* weights = packed_.data<float>() + i * igemm::packed_floats(channels, p_.outputs());
    const WinogradProduct product{
        t.input + i * input_step(), weights, t.sums + i * sums_step(), t.tiles, channels, p_.outputs(), plan_.slice};
    winograd_multiply(igemm::float_tiles(), product, parts_, column, columns);
  }

  void transform_output(const Buffers& b, const CpuEpilogue::Runner& runner, const Task& t, int64_t column,
                        int64_t columns) const {
    const ops::conv::WinogradTable& kernels = avx2::winograd_table();
    const auto& simple = epilogue_.simple();
    WinogradOutput o{};
    o.step = sums_step();
    o.columns = columns;
    o.bias = epilogue_.bias().empty() ? nullptr : epilogue_.bias().data() + column;
    if (simple) o.end = simple->end;
    const float* residual =
        simple && simple->residual >= 0 ? static_cast<const float*>(b.inputs[static_cast<size_t>(simple->residual)]) : nullptr;
    for (int64_t n = 0; n < t.tiles; ++n) {
      const WinogradPlan::Origin at = plan_.origin(t.tile + n);
      o.sums = t.sums + n * plan_.slice;
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t y = at.y + i / 2, x = at.x + i % 2;
        o.y[i] = nullptr;
        o.residual[i] = nullptr;
        if (y >= p_.y[2] || x >= p_.y[3]) continue;
        if (!simple) {
          o.y[i] = t.row + i * plan_.slice;
          continue;
        }
        o.y[i] = static_cast<float*>(b.outputs[0]) + at.n * y_n_ + y * y_y_ + x * y_x_ + column;
        if (residual) o.residual[i] = residual + epilogue_.residual_rows().offset((at.n * p_.y[2] + y) * p_.y[3] + x) + column;
      }
      kernels.output(o);
      if (simple) continue;
      for (int64_t dy = 0; dy < 2 && o.y[2 * dy]; ++dy) {
        runner.take({(at.n * p_.y[2] + at.y + dy) * p_.y[3] + at.x, o.y[2 * dy + 1] ? 2 : 1, column, columns, o.y[2 * dy],
                     plan_.slice, t.thread});
      }
    }
  }

  Problem p_;
  WinogradPlan plan_;
  int threads_;
  CpuEpilogue epilogue_;
  std::vector<Source> sources_;
  std::vector<float> zeros_;    // what a tile reads outside the image
  std::vector<int32_t> parts_;  // of the channels
  Tensor packed_;
  int64_t y_n_ = 0, y_y_ = 0, y_x_ = 0;  // strides of the output's pixels
};

std::optional<Refusal> rejects(const Request& r) {
  const Problem& p = r.problem;
  const BoundNode& b = r.node;
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2 and FMA");
  if (p.transposed) return refuse(Reason::unsupported, "transposed");
  if (p.spatial() != 2) return refuse(Reason::wrong_rank, "{} spatial axes; it knows 2", p.spatial());
  if (p.group != 1) return refuse(Reason::wrong_attribute, "group = {}; it knows 1", p.group);
  if (p.w[2] != 3 || p.w[3] != 3) return refuse(Reason::wrong_shape, "a window of {} x {}; it knows 3 x 3", p.w[2], p.w[3]);
  for (size_t a = 0; a < 2; ++a) {
    if (p.stride[a] != 1 || p.dilation[a] != 1)
      return refuse(Reason::wrong_attribute, "stride {} and dilation {}; it knows 1", p.stride[a], p.dilation[a]);
  }
  if (p.input != DType::f32 || p.output != DType::f32)
    return refuse(Reason::wrong_type, "types {} > {}", smelt::name(p.input), smelt::name(p.output));
  constexpr int64_t fewest_channels = 8;
  if (p.channels() < fewest_channels)
    return refuse(Reason::not_profitable, "{} channels; transforms pay from {} on", p.channels(), fewest_channels);
  if (!b.inputs[r.at.w].constant.valid()) return refuse(Reason::not_constant, "the weight is not constant");
  if (r.at.b < b.inputs.size() && b.inputs[r.at.b].type != DType::undefined && !b.inputs[r.at.b].constant.valid())
    return refuse(Reason::not_constant, "the bias is not constant");
  if (!is_channels_last(b.outputs[0])) return refuse(Reason::wrong_layout, "output layout {}; it writes nhwc", name(p.to));
  for (size_t i = 0; i < p.x.size(); ++i) {
    if (b.inputs[i].type != DType::f32) return refuse(Reason::wrong_type, "inputs of several types");
    if (!is_channels_last(b.inputs[i]))
      return refuse(Reason::wrong_layout, "input layout {}; it reads nhwc", name(b.inputs[i].layout));
  }
  if (elements(p.y) == 0) return refuse(Reason::wrong_shape, "an empty result");
  if (auto why = rejects_operands(b.inputs.size() - std::min(b.inputs.size(), r.at.operands))) return why;
  return std::nullopt;
}

/// On one Zen 3 core at 3.2 GHz, measured: the products reach 80 GFLOP/s, the transforms 3 elements a nanosecond, the weights 12
/// GB/s.
double estimate_us(const Problem& p, int threads) {
  const WinogradPlan s = winograd_plan(p, p.channels(), threads);
  const double pairs = static_cast<double>(positions * p.channels()) * static_cast<double>(p.outputs());
  const double products = 2 * pairs * static_cast<double>(s.tiles) / (80e3 * igemm::rate());
  const double transforms = static_cast<double>(s.tiles * positions * (p.channels() + p.outputs())) / 3e3;
  return 3 + std::max(products + transforms, 4 * pairs / 12e3) / threads;
}

}  // namespace

void offer_winograd(const Request& r, Offer& offer) {
  if (const auto why = rejects(r)) return offer.refuse("winograd", *why);
  offer.candidates.push_back(
      {"winograd", "f2x3", estimate_us(r.problem, r.threads), [node = r.node, p = r.problem, at = r.at, threads = r.threads] {
         return std::make_unique<WinogradConv>(node, p, at, threads);
       }});
}

}  // namespace smelt::ops::conv

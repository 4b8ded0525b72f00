// Convolutions of few channels and few outputs a group, along one, two or three axes: directly, tap by tap. The padded lines of a group
// are copied into memory that a core's cache holds, in as many planes as the strides say, so that every tap of all places reads floats that lie
// side by side; no columns are made, and no count of channels or outputs fills a register in part.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/number.h"
#include "base/value_of.h"
#include "expr/simd/widest.h"
#include "ops/conv/integer_form.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/float_taps.h"
#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/program_end.h"
#include "ops/cpu/rows/rows.h"

namespace smelt::ops::conv {
namespace {

const FloatTaps& table() { return simd::widest_of(base::float_taps, avx2::float_taps, avx512::float_taps); }

/// A transposed one with strides of 1 is a convolution by its taps in the other order.
IntegerForm form_of(const Problem& p) {
  IntegerForm f;
  f.batch = p.y[0], f.channels = p.x[0].shape[1], f.outputs = p.y[1], f.group = p.group;
  const size_t lead = 3 - p.spatial();
  for (size_t k = 0; k < 3; ++k) {
    const bool there = k >= lead;
    const size_t a = there ? k - lead : 0;
    f.in[k] = there ? p.x[0].shape[a + 2] : 1, f.out[k] = there ? p.y[a + 2] : 1, f.kernel[k] = there ? p.w[a + 2] : 1;
    f.stride[k] = there ? p.stride[a] : 1, f.dilation[k] = there ? p.dilation[a] : 1, f.begin[k] = there ? p.pad_begin[a] : 0;
    if (p.transposed) f.begin[k] = (f.kernel[k] - 1) * f.dilation[k] - f.begin[k];
    f.padded[k] = p.transposed ? f.out[k] + (f.kernel[k] - 1) * f.dilation[k] : f.in[k] + f.begin[k] + (there ? p.pad_end[a] : 0);
  }
  return f;
}

/// What comes behind the sums and the bias, where a row of one channel can have it by itself; nothing for other programs.
std::optional<igemm::Ending> ending_of(const Request& r) {
  const auto& program = r.node.node->program;
  if (!program) return igemm::Ending{};
  if (r.problem.output != DType::f32 || program->outputs().size() != 1 || program->input_count() != 1 ||
      program->type(0) != DType::f32)
    return std::nullopt;
  const ProgramEnd end = program_end(*program);
  if (end.argument != 0 || end.end.is_scaled || end.end.activation == igemm::Activation::hard_swish) return std::nullopt;
  return end.end;
}

/// How a group's lines are gone through: some at a time, all slices of them.
struct TapsPlan {
  static constexpr int64_t most_floats = 1 << 16;  // of the copy, and of the sums: the L2 cache holds both

  TapsPlan(const IntegerForm& f, int most_threads)
      : threads(useful_threads(most_threads, f.batch * f.outputs * f.plane() * f.depth() / 8)),
        pitch(divide_up(f.padded[2], f.stride[2])) {
    const auto fits = [&](int64_t n) {
      set_lines(f, n);
      return f.group_channels() * channel <= most_floats && f.group_outputs() * to_step <= most_floats;
    };
    const int64_t chunks_wanted = divide_up(int64_t{4} * threads, f.batch * f.group);
    int64_t most = threads == 1 ? f.out[1] : std::max<int64_t>(1, f.out[1] / chunks_wanted);
    while (most > 1 && !fits(most)) most = divide_up(most, 2);
    set_lines(f, divide_up(f.out[1], divide_up(f.out[1], most)));
    chunks = divide_up(f.out[1], lines);
  }
  void set_lines(const IntegerForm& f, int64_t n) {
    lines = n;
    rows = (lines - 1) * f.stride[1] + (f.kernel[1] - 1) * f.dilation[1] + 1;
    plane = divide_up(rows, f.stride[1]) * pitch;
    slice = plane * f.stride[1] * f.stride[2];
    channel = f.padded[0] * slice;
    places = (lines - 1) * pitch + f.out[2];
    to_step = divide_up(places, float_taps_lanes) * float_taps_lanes + float_taps_lanes;
  }

  int threads;
  int64_t pitch;                              // floats of a line of a remainder of columns by the stride
  int64_t chunks = 1, lines = 1, rows = 1;    // chunks of the lines of a slice; the rows of the image that one reads
  int64_t plane = 0, slice = 0, channel = 0;  // floats of what rows have of one remainder, of a slice, of a channel
  int64_t places = 0, to_step = 0;            // of all lines of a chunk as one, what lies between them too
};

class FloatTapsConv final : public Kernel {
 public:
  explicit FloatTapsConv(const Request& r)
      : f_(form_of(r.problem)),
        plan_(f_, r.threads),
        end_(value_of(ending_of(r), "the end of a direct convolution")),
        at_(r.at),
        x_type_(r.problem.input),
        w_type_(r.weight().type),
        y_type_(r.problem.output),
        transposed_(r.problem.transposed) {
    for (int64_t c = 0; c < f_.group_channels(); ++c)
      for (int64_t t = 0; t < f_.taps(); ++t) {
        const int64_t x = t % f_.kernel[2] * f_.dilation[2], y = t / f_.kernel[2] % f_.kernel[1] * f_.dilation[1],
                      z = t / f_.kernel[2] / f_.kernel[1] * f_.dilation[0];
        offsets_.push_back(c * plan_.channel + z * plan_.slice +
                           (y % f_.stride[1] * f_.stride[2] + x % f_.stride[2]) * plan_.plane + y / f_.stride[1] * plan_.pitch +
                           x / f_.stride[2]);
      }
    if (r.node.has(r.at.b) && !r.node.constant(r.at.b)) computed_bias_ = r.node.inputs[r.at.b].type;
    if (const Tensor b = bias(r.node, r.at); b.valid()) bias_ = b.cast(DType::f32);
    const Tensor& w = r.weight().constant;
    if (!w.valid()) return;  // a run packs them
    const auto make = [&] {
      Tensor to = Tensor::empty(DType::f32, {f_.outputs, f_.depth()});
      pack(w.cast(DType::f32).data<float>(), to.data<float>());
      return to;
    };
    packed_ = r.node.weights ? r.node.weights->packed(w,
                                                      Key("taps")
                                                          .field(Shape{f_.group, f_.outputs, f_.group_channels(), f_.taps()})
                                                          .flag(" turned", transposed_)
                                                          .text(),
                                                      make)
                             : make();
  }

  int64_t workspace() const override {
    return plan_.threads * thread_bytes() + aligned(plan_.threads) + computed_bytes() +
           aligned(computed_bias_ ? f_.outputs * 4 : 0);
  }

  void run(const Buffers& b) override {
    char* computed = static_cast<char*>(b.workspace) + plan_.threads * thread_bytes() + aligned(plan_.threads);
    const Operands operands =
        operands_of(b, reinterpret_cast<float*>(computed), reinterpret_cast<float*>(computed + computed_bytes()));
    const int64_t tasks = f_.batch * f_.group * plan_.chunks;
    // By thread, whether its copy is zeros where no image lies: what is copied later leaves these places alone.
    char* is_clear = static_cast<char*>(b.workspace) + plan_.threads * thread_bytes();
    std::fill_n(is_clear, plan_.threads, char{0});
    parallel(plan_.threads, tasks, 1, [&](int64_t begin, int64_t end, int thread) {
      char* memory = static_cast<char*>(b.workspace) + thread * thread_bytes();
      auto* own = reinterpret_cast<float*>(memory);
      auto* sums = reinterpret_cast<float*>(memory + own_bytes());
      auto* row = reinterpret_cast<float*>(memory + own_bytes() + sums_bytes());
      if (!std::exchange(is_clear[thread], char{1})) std::memset(own, 0, static_cast<size_t>(own_bytes()));
      for (int64_t i = begin; i < end; ++i) chunk(b, i / plan_.chunks, i % plan_.chunks * plan_.lines, operands, own, sums, row);
    });
  }

 private:
  int64_t own_bytes() const { return aligned((f_.group_channels() * plan_.channel + float_taps_slack) * 4); }
  int64_t sums_bytes() const { return aligned(f_.group_outputs() * plan_.to_step * 4); }
  int64_t thread_bytes() const { return own_bytes() + sums_bytes() + aligned(std::max(f_.in[2], f_.out[2]) * 4); }

  /// Where weight `k` of output i lies in [C, M, taps] of a transposed one.
  int64_t turned(int64_t group, int64_t i, int64_t k) const {
    const int64_t taps = f_.taps(), c = group * f_.group_channels() + k / taps;
    return (c * f_.group_outputs() + i) * taps + taps - 1 - k % taps;
  }

  /// [M, C, taps] of each group as float_taps.h says.
  void pack(const float* w, float* out) const {
    const int64_t depth = f_.depth(), outputs = f_.group_outputs();
    for (int64_t g = 0; g < f_.group; ++g)
      for (int64_t m = 0; m < outputs; m += float_taps_results)
        for (int64_t k = 0; k < depth; ++k)
          for (int64_t i = m; i < std::min(outputs, m + float_taps_results); ++i)
            *out++ = w[transposed_ ? turned(g, i, k) : (g * outputs + i) * depth + k];
  }

  /// The packed weights and the bias of a run; no bias: nullptr.
  struct Operands {
    const float *weights, *bias;
  };
  /// Of computed weights both what they are packed to and, where they are of 16 bits, what they are as floats.
  int64_t computed_bytes() const {
    return packed_.valid() ? 0 : aligned(f_.outputs * f_.depth() * 4) * (w_type_ == DType::f32 ? 1 : 2);
  }
  Operands operands_of(const Buffers& b, float* weights, float* bias) const {
    const auto floats = [&](size_t input, DType type, int64_t count, float* to) {
      if (type == DType::f32) return static_cast<const float*>(b.inputs[input]);
      row_simd().load(required_float_kind(type), static_cast<const uint16_t*>(b.inputs[input]), nullptr, nullptr, to, count);
      return static_cast<const float*>(to);
    };
    Operands o{packed_.valid() ? packed_.data<float>() : weights, bias_.valid() ? bias_.data<float>() : nullptr};
    const int64_t count = f_.outputs * f_.depth();
    if (!packed_.valid()) pack(floats(at_.w, w_type_, count, weights + aligned(count * 4) / 4), weights);
    if (computed_bias_) o.bias = floats(at_.b, *computed_bias_, f_.outputs, bias);
    return o;
  }

  void chunk(const Buffers& b, int64_t group, int64_t first_line, const Operands& operands, float* own, float* sums,
             float* row) const {
    const int64_t n = group / f_.group, g = group % f_.group, channels = f_.group_channels(), outputs = f_.group_outputs();
    const int64_t lines = std::min(plan_.lines, f_.out[1] - first_line);
    if (lines <= 0) return;
    for (int64_t c = 0; c < channels; ++c)
      copy(b.inputs[0], n * f_.channels + g * channels + c, first_line * f_.stride[1], own + c * plan_.channel, row);
    const int64_t places = (lines - 1) * plan_.pitch + f_.out[2];
    for (int64_t d = 0; d < f_.out[0]; ++d) {
      table().fold({own + d * f_.stride[0] * plan_.slice, offsets_.data(), operands.weights + g * outputs * f_.depth(),
                    f_.depth(), outputs, places, sums, plan_.to_step});
      for (int64_t m = 0; m < outputs; ++m) {
        const int64_t channel = g * outputs + m;
        const float start = operands.bias ? operands.bias[channel] : 0;
        const int64_t to = (((n * f_.outputs + channel) * f_.out[0] + d) * f_.out[1] + first_line) * f_.out[2];
        for (int64_t h = 0; h < lines; ++h)
          finish(sums + m * plan_.to_step + h * plan_.pitch, start, b.outputs[0], to + h * f_.out[2], row);
      }
    }
  }

  void finish(const float* sums, float start, void* y, int64_t at, float* row) const {
    const int64_t n = f_.out[2];
    constexpr float inf = std::numeric_limits<float>::infinity();
    float* to = y_type_ == DType::f32 ? static_cast<float*>(y) + at : row;
    table().end(sums, start, end_.activation == igemm::Activation::clamp ? end_.low : -inf,
                end_.activation == igemm::Activation::clamp ? end_.high : inf, n, to);
    if (y_type_ != DType::f32)
      row_simd().scale(required_float_kind(y_type_), row, nullptr, nullptr, static_cast<uint16_t*>(y) + at, n);
  }

  /// Where the columns without a remainder lie of a row of the copy.
  float* line_at(int64_t z, int64_t row, float* to) const {
    return to + (z + f_.begin[0]) * plan_.slice + row % f_.stride[1] * f_.stride[2] * plan_.plane +
           row / f_.stride[1] * plan_.pitch;
  }
  void clear_rows(int64_t begin, int64_t end, int64_t first, float* to) const {
    for (int64_t z = 0; z < f_.in[0]; ++z)
      for (int64_t r = begin; r < end; ++r)
        for (int64_t p = 0; p < f_.stride[2]; ++p) std::fill_n(line_at(z, r - first, to) + p * plan_.plane, plan_.pitch, 0.0f);
  }

  /// Rows `first` and those behind it of every slice of a channel's padded image; outside of the image they are zeros.
  void copy(const void* x, int64_t channel, int64_t first, float* to, float* row) const {
    const int64_t begin = std::max(first, f_.begin[1]), end = std::min(first + plan_.rows, f_.begin[1] + f_.in[1]);
    const int64_t columns = f_.in[2], stride = f_.stride[2];
    if (plan_.chunks > 1) {  // another chunk's rows lay where there are none now
      clear_rows(first, std::min(begin, first + plan_.rows), first, to);
      clear_rows(std::max(end, first), first + plan_.rows, first, to);
    }
    for (int64_t z = 0; z < f_.in[0]; ++z)
      for (int64_t r = begin; r < end; ++r) {
        const int64_t from = ((channel * f_.in[0] + z) * f_.in[1] + r - f_.begin[1]) * columns;
        float* line = line_at(z, r - first, to);
        const float* values = row;
        if (x_type_ == DType::f32)
          values = static_cast<const float*>(x) + from;
        else
          row_simd().load(required_float_kind(x_type_), static_cast<const uint16_t*>(x) + from, nullptr, nullptr, row, columns);
        if (stride == 1) {
          std::memcpy(line + f_.begin[2], values, static_cast<size_t>(columns) * 4);
          continue;
        }
        for (int64_t p = 0; p < stride; ++p) {
          const int64_t skipped = ((p - f_.begin[2]) % stride + stride) % stride;
          float* part = line + p * plan_.plane + (f_.begin[2] + skipped) / stride;
          for (int64_t i = skipped; i < columns; i += stride) *part++ = values[i];
        }
      }
  }

  IntegerForm f_;
  TapsPlan plan_;
  igemm::Ending end_;
  Arguments at_;
  Tensor bias_;
  std::optional<DType> computed_bias_;
  DType x_type_, w_type_, y_type_;
  bool transposed_;
  std::vector<int64_t> offsets_;
  Tensor packed_;  // not valid() where weights are computed
};

std::optional<Refusal> rejects(const Request& r) {
  const Problem& p = r.problem;
  const BoundNode& b = r.node;
  if (p.spatial() < 1 || p.spatial() > 3)
    return refuse(Reason::wrong_rank, "taps: {} spatial axes; it knows 1 to 3", p.spatial());
  if (!float_kind(p.input) || !float_kind(p.output) || !float_kind(b.inputs[r.at.w].type))
    return refuse(Reason::wrong_type, "taps: types {} > {}", smelt::name(p.input), smelt::name(p.output));
  if (p.x.size() != 1 || p.x[0].upsample != 1) return refuse(Reason::unsupported, "taps: {} images, or larger ones", p.x.size());
  if (b.has(r.at.b) && !float_kind(b.inputs[r.at.b].type))
    return refuse(Reason::wrong_type, "taps: a bias of {}", smelt::name(b.inputs[r.at.b].type));
  if (auto why = rejects_layouts(b)) return why;
  if (elements(p.y) == 0 || elements(p.x[0].shape) == 0 || elements(p.w) == 0)
    return refuse(Reason::wrong_shape, "taps: an empty tensor");
  constexpr int64_t few_channels = 64, few_outputs = 256;
  if (p.transposed && std::ranges::any_of(p.stride, [](int64_t n) { return n != 1; }))
    return refuse(Reason::unsupported, "taps: a transposed one with strides");
  const IntegerForm f = form_of(p);
  if (f.group_channels() > few_channels || f.group_outputs() > few_outputs)
    return refuse(Reason::not_profitable, "taps: {} channels, {} outputs a group; it pays up to {} and {}", f.group_channels(),
                  f.group_outputs(), few_channels, few_outputs);
  for (size_t k = 0; k < 3; ++k)
    if (f.begin[k] < 0 || f.begin[k] + f.in[k] > f.padded[k])
      return refuse(Reason::unsupported, "taps: an image that is cut off");
  double padded = 1;
  for (size_t k = 0; k < 3; ++k) padded *= static_cast<double>(f.padded[k]) + static_cast<double>(f.stride[k]);
  if (padded > 0x1p40) return refuse(Reason::not_profitable, "taps: more than 2^40 places with their padding");
  const TapsPlan plan(f, r.threads);
  constexpr int64_t most = 4 * TapsPlan::most_floats;
  if (f.group_channels() * plan.channel > most || f.group_outputs() * plan.to_step > most)
    return refuse(Reason::not_profitable, "taps: a line of all channels has {} floats with what it reads; it pays up to {}",
                  f.group_channels() * plan.channel, most);
  if (!ending_of(r)) return refuse(Reason::unsupported, "taps: a program other than an activation of floats");
  return std::nullopt;
}

/// A core: 32 places of a tap and a result, a float copied, a result written.
double estimate_us(const Problem& p, bool constant, int threads) {
  const IntegerForm f = form_of(p);
  const TapsPlan plan(f, threads);
  const double places = static_cast<double>(plan.chunks * divide_up(plan.places, float_taps_lanes) * float_taps_lanes * f.out[0]);
  const double folded = static_cast<double>(f.batch * f.outputs * f.depth()) * places / 32;
  const double packed = constant ? 0 : static_cast<double>(f.outputs * f.depth());
  const double copied = static_cast<double>(f.batch * f.channels * plan.chunks) * static_cast<double>(plan.channel);
  return 1 + 1e-3 * packed + 1e-3 * (folded * 0.6 + copied * 0.2 + static_cast<double>(elements(p.y)) * 0.2) / plan.threads;
}

}  // namespace

void offer_float_taps(const Request& r, Offer& offer) {
  if (!float_kind(r.problem.input)) return;  // others have kernels that know them
  if (auto why = rejects(r)) return offer.refuse("cpu", *why);
  offer.candidates.push_back(
      {"cpu", "taps", estimate_us(r.problem, r.weight().constant.valid(), r.threads), [r, node = *r.node.node] {
         Request own = r;
         own.node.node = &node;
         return std::make_unique<FloatTapsConv>(own);
       }});
}

}  // namespace smelt::ops::conv

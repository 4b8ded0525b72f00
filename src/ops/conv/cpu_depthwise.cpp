// Depthwise convolution of floats over channels-last images: one channel a group, a register of channels at a time. Extents are read at
// run time: preparing it packs the weights, once for all shapes.
#include <algorithm>
#include <vector>

#include "base/number.h"
#include "expr/simd/isa.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/depthwise.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {
namespace {

const DepthwiseTable& table() {
  return simd::widest() == simd::Isa::avx512 ? avx512::depthwise_table() : avx2::depthwise_table();
}

/// The taps of a window along one axis that lie inside the image.
struct Inside {
  int64_t first = 0, count = 0;
};
Inside inside(int64_t at, int64_t taps, int64_t dilation, int64_t extent) {
  const int64_t first = at >= 0 ? 0 : std::min(taps, (-at + dilation - 1) / dilation);
  const int64_t end = at >= extent ? 0 : std::min(taps, (extent - 1 - at) / dilation + 1);
  return {first, std::max<int64_t>(end - first, 0)};
}

class Depthwise final : public Kernel {
 public:
  explicit Depthwise(const Request& r)
      : p_(r.problem),
        threads_(useful_threads(r.threads, truncated(r.problem.flops() / 16))),
        x_input_(r.at.x),
        x_(memory_strides(r.node.inputs[r.at.x])),
        y_(memory_strides(r.node.outputs[0])),
        padded_((p_.y[1] + depthwise_padding - 1) / depthwise_padding * depthwise_padding),
        epilogue_(r.node, r.at.operands, 1, bias(r.node, r.at)) {
    bias_ = epilogue_.bias();
    if (!bias_.empty()) bias_.resize(static_cast<size_t>(std::max<int64_t>(padded_, static_cast<int64_t>(bias_.size()))), 0.0f);
    // Pixels of a line whose windows lie inside along it.
    const int64_t last = p_.x[0].shape[3] - 1 - (p_.w[3] - 1) * p_.dilation[1] + p_.pad_begin[1];
    inner_begin_ = std::min((p_.pad_begin[1] + p_.stride[1] - 1) / p_.stride[1], p_.y[3]);
    inner_end_ = last < 0 ? inner_begin_ : std::clamp(last / p_.stride[1] + 1, inner_begin_, p_.y[3]);
    constexpr int64_t sums_in_cache = 16384, fewest = 16;
    pixels_ = epilogue_.simple() ? p_.y[3] : std::clamp<int64_t>(sums_in_cache / std::max<int64_t>(p_.y[1], 1), fewest, 1024);
    const Tensor& w = r.weight().constant;
    const auto make = [&] { return packed(w); };
    packed_ = r.node.weights ? r.node.weights->packed(w, Key("depthwise").text(), form(), make) : make();
  }

  int64_t workspace() const override { return threads_ * (sums_bytes() + epilogue_.scratch()); }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const CpuEpilogue::Runner finish(epilogue_, b, memory);
    char* sums = memory + threads_ * epilogue_.scratch();
    parallel(threads_, p_.y[0] * p_.y[2], 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t line = begin; line < end; ++line) {
        if (epilogue_.simple())
          run_into_output(b, line);
        else
          run_through(finish, b, line, reinterpret_cast<float*>(sums + thread * sums_bytes()), thread);
      }
    });
  }

 private:
  int64_t sums_bytes() const { return epilogue_.simple() ? 0 : aligned(pixels_ * p_.y[1] * 4); }

  void run_into_output(const Buffers& b, int64_t line) const {
    const CpuEpilogue::Simple& simple = value_of(epilogue_.simple(), "the epilogue of a depthwise convolution");
    const int64_t first = line * p_.y[3];
    DepthwiseSpan s = span(b, line);
    s.end = simple.end;
    float* y = static_cast<float*>(b.outputs[0]) + line / p_.y[2] * y_[0] + line % p_.y[2] * y_[2];
    const float* residual = nullptr;
    if (simple.residual >= 0) {
      const igemm::RowMap& rows = epilogue_.residual_rows();
      residual = static_cast<const float*>(b.inputs[static_cast<size_t>(simple.residual)]) + rows.offset(first);
      s.residual_step = p_.y[3] > 1 ? rows.offset(first + 1) - rows.offset(first) : 0;
    }
    s.y_step = y_[3];
    run_pixels(s, 0, p_.y[3], y, residual);
  }

  void run_through(const igemm::Finish& finish, const Buffers& b, int64_t line, float* sums, int thread) const {
    DepthwiseSpan s = span(b, line);
    s.y_step = p_.y[1];
    for (int64_t first = 0; first < p_.y[3]; first += pixels_) {
      const int64_t count = std::min(pixels_, p_.y[3] - first);
      run_pixels(s, first, first + count, sums, nullptr);
      finish.take({line * p_.y[3] + first, count, 0, p_.y[1], sums, p_.y[1], thread});
    }
  }

  /// A line's image and window, without what differs along it.
  DepthwiseSpan span(const Buffers& b, int64_t line) const {
    DepthwiseSpan s{};
    const int64_t y = line % p_.y[2] * p_.stride[0] - p_.pad_begin[0];
    const Inside rows = inside(y, p_.w[2], p_.dilation[0], p_.x[0].shape[2]);
    s.rows = rows.count;
    s.row_step = p_.dilation[0] * x_[2];
    s.tap_step = p_.dilation[1] * x_[3];
    s.pixel_step = p_.stride[1] * x_[3];
    s.stride = p_.dilation[1] == 1 ? p_.stride[1] : 0;
    s.w_tap_step = padded_;
    s.w_row_step = p_.w[3] * padded_;
    s.w = packed_.data<float>() + rows.first * s.w_row_step;
    s.bias = bias_.empty() ? nullptr : bias_.data();
    s.channels = p_.y[1];
    s.x = static_cast<const float*>(b.inputs[x_input_]) + line / p_.y[2] * x_[0];
    if (rows.count > 0) s.x += (y + rows.first * p_.dilation[0]) * x_[2];
    return s;
  }

  /// Pixels [begin, end) of the line; the first one's results go to `y`.
  void run_pixels(const DepthwiseSpan& line, int64_t begin, int64_t end, float* y, const float* residual) const {
    const auto run = table().run;
    for (int64_t x = begin; x < end;) {
      DepthwiseSpan s = line;
      const int64_t at = x * p_.stride[1] - p_.pad_begin[1];
      const Inside taps = inside(at, p_.w[3], p_.dilation[1], p_.x[0].shape[3]);
      const bool inner = x >= inner_begin_ && x < inner_end_;
      s.pixels = inner ? std::min(inner_end_, end) - x : 1;
      s.taps = taps.count;
      s.w += taps.first * s.w_tap_step;
      if (taps.count > 0) s.x += (at + taps.first * p_.dilation[1]) * x_[3];
      s.y = y + (x - begin) * s.y_step;
      s.residual = residual ? residual + (x - begin) * s.residual_step : nullptr;
      run(s);
      x += s.pixels;
    }
  }

  /// [taps][channels, padded with zeros].
  FormKind form() const { return {DType::f32, {p_.w[2] * p_.w[3], padded_}}; }

  Tensor packed(const Tensor& w) const {
    const Tensor source = w.type() == DType::f32 ? w : w.cast(DType::f32);
    const int64_t taps = p_.w[2] * p_.w[3];
    Tensor t = Tensor::empty(DType::f32, form().shape);
    std::fill_n(t.data<float>(), taps * padded_, 0.0f);
    for (int64_t c = 0; c < p_.y[1]; ++c)
      for (int64_t tap = 0; tap < taps; ++tap) t.data<float>()[tap * padded_ + c] = source.data<float>()[c * taps + tap];
    return t;
  }

  Problem p_;
  int threads_;
  size_t x_input_;
  Shape x_, y_;  // strides in memory
  int64_t padded_;
  CpuEpilogue epilogue_;
  std::vector<float> bias_;
  int64_t inner_begin_ = 0, inner_end_ = 0;  // pixels of a line whose windows lie inside along it
  int64_t pixels_ = 0;                       // of a line, whose sums are finished at a time
  Tensor packed_;
};

std::optional<Refusal> rejects(const Request& r) {
  const Problem& p = r.problem;
  const BoundNode& b = r.node;
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2 and FMA");
  if (p.spatial() != 2) return refuse(Reason::wrong_rank, "depthwise, {} spatial axes; it knows 2", p.spatial());
  if (p.x.size() > 1 || p.x[0].upsample != 1) return refuse(Reason::unsupported, "depthwise, of one image as it is");
  if (p.input != DType::f32) return refuse(Reason::wrong_type, "depthwise, type {}; it reads f32", smelt::name(p.input));
  if (!r.weight().constant.valid()) return refuse(Reason::not_constant, "the weight is not constant");
  if (b.has(r.at.b) && !b.inputs[r.at.b].constant.valid()) return refuse(Reason::not_constant, "the bias is not constant");
  for (const BoundTensor* t : {&b.inputs[r.at.x], &b.outputs[0]})
    if (!is_channels_last(*t))
      return refuse(Reason::wrong_layout, "depthwise, layout {}; it reads and writes nhwc", name(t->layout));
  return rejects_operands(b.inputs.size() - std::min(b.inputs.size(), r.at.operands));
}

}  // namespace

void offer_depthwise(const Request& r, Offer& offer) {
  const Problem& p = r.problem;
  if (p.transposed || p.group < 2 || p.w[1] != 1 || p.y[1] != p.group) return;
  if (const auto why = rejects(r)) return offer.refuse("avx2", *why);
  constexpr double flops_per_us = 70e3, elements_per_us = 3e3;  // of one Zen 4 core, measured
  const double us = p.flops() / flops_per_us + static_cast<double>(elements(p.y)) / elements_per_us;
  offer.candidates.push_back({"avx2", "depthwise", 1 + us / r.threads, [r] { return std::make_unique<Depthwise>(r); }});
}

}  // namespace smelt::ops::conv

// Transposed convolutions of f32 to few channels, as segmentation and text detection end with: a line of the result at a time. Of the
// line's pixels those that lie a stride apart see the same taps, each of which adds a line of each input channel to them. So there
// are no columns, and sums stay in registers over the channels.
#include <algorithm>
#include <vector>

#include "base/number.h"
#include "base/value_of.h"
#include "expr/simd/isa.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/transposed_lines.h"
#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops::conv {
namespace {

const TransposedLines& table() { return simd::best() == simd::Isa::avx2 ? avx2::transposed_lines() : base::transposed_lines(); }

class TransposedLinesConv final : public Kernel {
 public:
  explicit TransposedLinesConv(const Request& r)
      : p_(r.problem),
        threads_(useful_threads(r.threads, static_cast<int64_t>(std::min(r.problem.flops() / 16, 1e15)))),
        epilogue_(r.node, r.at.operands, 1, bias(r.node, r.at)),
        phases_(std::min(p_.stride[1], p_.y[3])),
        length_(divide_up(p_.y[3], p_.stride[1])) {
    const Tensor& w = r.weight().constant;
    const auto make = [&] { return packed(w); };
    packed_ = r.node.weights ? r.node.weights->packed(w, Key("transposed lines").text(), make) : make();
  }

  int64_t workspace() const override { return threads_ * line_bytes(); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    auto* y = static_cast<float*>(b.outputs[0]);
    const igemm::Ending& end = value_of(epilogue_.simple(), "the epilogue of a transposed convolution").end;
    const int64_t height = p_.y[2], outputs = p_.y[1];
    parallel(threads_, p_.y[0] * outputs * height, 1, [&](int64_t begin, int64_t stop, int thread) {
      auto* sums = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + thread * line_bytes());
      for (int64_t line = begin; line < stop; ++line) {
        const int64_t channel = line / height % outputs;
        const float start = epilogue_.bias().empty() ? 0 : epilogue_.bias()[static_cast<size_t>(channel)];
        std::fill_n(sums, phases_ * length_, start);
        add_taps(x + line / (height * outputs) * p_.w[0] * plane(), channel, line % height, sums);
        if (end.activation != igemm::Activation::none)
          for (int64_t i = 0; i < phases_ * length_; ++i) sums[i] = igemm::activated(sums[i], end);
        table().interleave(sums, length_, p_.stride[1], p_.y[3], y + line * p_.y[3]);
      }
    });
  }

 private:
  int64_t plane() const { return p_.x[0].shape[2] * p_.x[0].shape[3]; }
  int64_t line_bytes() const { return aligned(phases_ * length_ * 4); }

  /// What one tap of a line reads: the place of the input along an axis for the output's place `at`; nothing between two of them.
  static std::optional<int64_t> source(int64_t at, int64_t stride) {
    return at % stride == 0 ? std::optional(at / stride) : std::nullopt;
  }

  void add_taps(const float* image, int64_t channel, int64_t line, float* sums) const {
    const int64_t rows = p_.x[0].shape[2], columns = p_.x[0].shape[3], inputs = p_.w[0];
    for (int64_t ky = 0; ky < p_.w[2]; ++ky) {
      const int64_t row = source(line + p_.pad_begin[0] - ky * p_.dilation[0], p_.stride[0]).value_or(-1);
      if (row < 0 || row >= rows) continue;
      for (int64_t kx = 0; kx < p_.w[3]; ++kx) {
        // Output place phase + stride · i reads input place shift + i.
        const int64_t back = kx * p_.dilation[1] - p_.pad_begin[1], stride = p_.stride[1];
        const int64_t phase = ((back % stride) + stride) % stride, shift = (phase - back) / stride;
        const int64_t first = std::max<int64_t>(0, -shift), end = std::min(length_, columns - shift);
        if (end <= first || phase >= phases_) continue;
        const float* w = packed_.data<float>() + ((channel * p_.w[2] + ky) * p_.w[3] + kx) * inputs;
        table().add(image + row * columns + shift + first, plane(), w, inputs, end - first, sums + phase * length_ + first);
      }
    }
  }

  /// [C, M, kernel…] as [M, kernel…, C].
  Tensor packed(const Tensor& w) const {
    const int64_t inputs = p_.w[0], taps = p_.w[1] * p_.w[2] * p_.w[3];
    Tensor to = Tensor::empty(DType::f32, {p_.w[1], p_.w[2], p_.w[3], inputs});
    for (int64_t c = 0; c < inputs; ++c)
      for (int64_t t = 0; t < taps; ++t) to.data<float>()[t * inputs + c] = w.data<float>()[c * taps + t];
    return to;
  }

  Problem p_;
  int threads_;
  CpuEpilogue epilogue_;
  int64_t phases_, length_;  // of a line's pixels: those that lie a stride apart, and how many each has
  Tensor packed_;
};

std::optional<Refusal> rejects(const Request& r) {
  const Problem& p = r.problem;
  const BoundNode& b = r.node;
  if (!p.transposed) return refuse(Reason::unsupported, "lines: no transposed convolution");
  if (p.spatial() != 2) return refuse(Reason::wrong_rank, "lines: {} spatial axes; it knows 2", p.spatial());
  if (p.input != DType::f32 || p.output != DType::f32 || b.inputs[r.at.w].type != DType::f32)
    return refuse(Reason::wrong_type, "lines: types {} > {}", smelt::name(p.input), smelt::name(p.output));
  if (p.group != 1 || p.x.size() != 1 || p.x[0].upsample != 1)
    return refuse(Reason::unsupported, "lines: group = {} of {} images", p.group, p.x.size());
  if (!b.inputs[r.at.w].constant.valid()) return refuse(Reason::not_constant, "lines: the weight is not constant");
  if (b.has(r.at.b) && (!b.inputs[r.at.b].constant.valid() || b.inputs[r.at.b].type != DType::f32))
    return refuse(Reason::not_constant, "lines: the bias is no constant of f32");
  if (auto why = rejects_layouts(b)) return why;
  if (elements(p.y) == 0 || elements(p.x[0].shape) == 0) return refuse(Reason::wrong_shape, "lines: an empty tensor");
  const CpuEpilogue epilogue(b, r.at.operands, 1, bias(b, r.at));
  const auto& simple = epilogue.simple();
  if (!simple || epilogue.residual() >= 0 || simple->end.is_scaled)
    return refuse(Reason::unsupported, "lines: a program other than an activation");
  return std::nullopt;
}

/// A core, reckoned: 8 products a nanosecond, 2 ns for a tap of a line, results written one by one.
double estimate_us(const Problem& p, int threads) {
  const double taps = static_cast<double>(p.y[0] * p.y[1] * p.y[2] * p.w[2] * p.w[3]) / static_cast<double>(p.stride[0]);
  const double products = static_cast<double>(p.w[0]) * static_cast<double>(divide_up(p.y[3], p.stride[1]));
  return 1 + 1e-3 * (taps * (2 + products / 8) + static_cast<double>(elements(p.y)) / 2) / threads;
}

}  // namespace

void offer_transposed_lines(const Request& r, Offer& offer) {
  if (!r.problem.transposed || r.problem.input != DType::f32) return;  // others have kernels that know them
  if (auto why = rejects(r)) return offer.refuse("cpu", *why);
  offer.candidates.push_back({"cpu", "lines", estimate_us(r.problem, r.threads), [r, node = *r.node.node] {
                                Request own = r;
                                own.node.node = &node;
                                return std::make_unique<TransposedLinesConv>(own);
                              }});
}

}  // namespace smelt::ops::conv

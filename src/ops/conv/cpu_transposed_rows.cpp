// Transposed convolutions of f32 images that lie channels-last, to few channels, by windows that lie side by side. A row of pixels is
// turned into lines of channels once, in the L1 cache; each tap and channel of the result is then a weighted sum of these lines, which
// fills registers whatever the number of channels. As columns of a matrix product they would fill a part of one.
#include <algorithm>
#include <vector>

#include "base/number.h"
#include "base/value_of.h"
#include "expr/simd/isa.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/transposed_lines.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops::conv {
namespace {

const TransposedLines& table() { return simd::best() == simd::Isa::avx2 ? avx2::transposed_lines() : base::transposed_lines(); }

/// Pixels that are turned at once: 16 KiB of channels.
int64_t pixels_at_once(const Problem& p) { return std::min(p.x[0].shape[3], std::max<int64_t>(16, 4096 / p.w[0])); }

class TransposedRowsConv final : public Kernel {
 public:
  explicit TransposedRowsConv(const Request& r)
      : p_(r.problem),
        threads_(useful_threads(r.threads, static_cast<int64_t>(std::min(r.problem.flops() / 16, 1e15)))),
        epilogue_(r.node, r.at.operands, 1, bias(r.node, r.at)),
        x_steps_(pixel_steps(r.node.inputs[0])),
        y_steps_(memory_strides(r.node.outputs[0])),
        pixels_(pixels_at_once(p_)),
        turned_({pixels_, p_.w[0]}, {x_steps_[2], 1}, {1, pixels_}, 4, 1) {
    if (const int64_t left = p_.x[0].shape[3] % pixels_)
      last_turned_.emplace(StridedCopy({left, p_.w[0]}, {x_steps_[2], 1}, {1, left}, 4, 1));
    const Tensor& w = r.weight().constant;
    const auto make = [&] { return packed(w); };
    packed_ = r.node.weights ? r.node.weights->packed(w, Key("transposed rows").text(), make) : make();
  }

  int64_t workspace() const override { return threads_ * thread_bytes(); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    auto* y = static_cast<float*>(b.outputs[0]);
    const int64_t height = p_.x[0].shape[2], width = p_.x[0].shape[3];
    parallel(threads_, p_.x[0].shape[0] * height, 1, [&](int64_t begin, int64_t stop, int thread) {
      char* memory = static_cast<char*>(b.workspace) + thread * thread_bytes();
      for (int64_t row = begin; row < stop; ++row) {
        const int64_t image = row / height, line = row % height;
        const float* from = x + image * x_steps_[0] + line * x_steps_[1];
        for (int64_t at = 0; at < width; at += pixels_) {
          const int64_t n = std::min(pixels_, width - at);
          auto* lines = reinterpret_cast<float*>(memory);
          (n == pixels_ ? turned_ : *last_turned_).run(lines, from + at * x_steps_[2]);
          write(lines, n, reinterpret_cast<float*>(memory + line_bytes()),
                y + image * y_steps_[0] + line * p_.w[2] * y_steps_[2] + at * p_.w[3] * y_steps_[3]);
        }
      }
    });
  }

 private:
  int64_t line_bytes() const { return aligned(p_.w[0] * pixels_ * 4); }
  int64_t thread_bytes() const { return line_bytes() + aligned(p_.w[1] * p_.w[3] * pixels_ * 4); }
  bool channels_beside() const { return y_steps_[3] == p_.w[1]; }

  /// All results of n pixels, whose channels are `lines`.
  void write(const float* lines, int64_t n, float* sums, float* y) const {
    const int64_t inputs = p_.w[0], outputs = p_.w[1], columns = p_.w[3];
    // What lies side by side in a line of the result: taps, and in each its channels.
    const int64_t channels = channels_beside() ? outputs : 1, beside = columns * channels;
    for (int64_t ky = 0; ky < p_.w[2]; ++ky) {
      for (int64_t first = 0; first < outputs; first += channels) {
        for (int64_t i = 0; i < beside; ++i) {
          const int64_t channel = first + i % channels, tap = ky * columns + i / channels;
          float* to = sums + i * n;
          std::fill_n(to, n, epilogue_.bias().empty() ? 0 : epilogue_.bias()[static_cast<size_t>(channel)]);
          table().add(lines, n, packed_.data<float>() + (tap * outputs + channel) * inputs, inputs, n, to);
        }
        table().interleave(sums, n, beside, n * beside, y + ky * y_steps_[2] + first * y_steps_[1]);
      }
    }
  }

  /// [C, M, kernel…] as [kernel…, M, C].
  Tensor packed(const Tensor& w) const {
    const int64_t inputs = p_.w[0], outputs = p_.w[1], taps = p_.w[2] * p_.w[3];
    Tensor to = Tensor::empty(DType::f32, {p_.w[2], p_.w[3], outputs, inputs});
    for (int64_t c = 0; c < inputs; ++c)
      for (int64_t m = 0; m < outputs; ++m)
        for (int64_t t = 0; t < taps; ++t)
          to.data<float>()[(t * outputs + m) * inputs + c] = w.data<float>()[(c * outputs + m) * taps + t];
    return to;
  }

  Problem p_;
  int threads_;
  CpuEpilogue epilogue_;
  Shape x_steps_, y_steps_;  // [N, H, W] of the image; [N, C, H, W]
  int64_t pixels_;
  StridedCopy turned_;  // pixels_ pixels
  std::optional<StridedCopy> last_turned_;
  Tensor packed_;
};

std::optional<Refusal> rejects(const Request& r) {
  const Problem& p = r.problem;
  const BoundNode& b = r.node;
  if (p.spatial() != 2) return refuse(Reason::wrong_rank, "rows: {} spatial axes; it knows 2", p.spatial());
  if (p.input != DType::f32 || p.output != DType::f32 || b.inputs[r.at.w].type != DType::f32)
    return refuse(Reason::wrong_type, "rows: types {} > {}", smelt::name(p.input), smelt::name(p.output));
  if (p.group != 1 || p.x.size() != 1 || p.x[0].upsample != 1)
    return refuse(Reason::unsupported, "rows: group = {} of {} images", p.group, p.x.size());
  if (b.node->program) return refuse(Reason::unsupported, "rows: a program");
  if (!b.inputs[r.at.w].constant.valid()) return refuse(Reason::not_constant, "rows: the weight is not constant");
  if (b.has(r.at.b) && (!b.inputs[r.at.b].constant.valid() || b.inputs[r.at.b].type != DType::f32))
    return refuse(Reason::not_constant, "rows: the bias is no constant of f32");
  if (elements(p.y) == 0 || elements(p.x[0].shape) == 0) return refuse(Reason::wrong_shape, "rows: an empty tensor");
  if (!is_channels_last(b.inputs[0]))
    return refuse(Reason::wrong_layout, "rows: input layout {}; it reads nhwc", name(b.inputs[0].layout));
  if (!windows_lie_side_by_side(p)) return refuse(Reason::unsupported, "rows: windows that overlap or are padded");
  const Shape y = memory_strides(b.outputs[0]);
  if (!(y[1] == 1 && y[3] == p.w[1]) && y[3] != 1)
    return refuse(Reason::wrong_layout, "rows: pixels of the result that are apart in memory");
  return std::nullopt;
}

/// A core: a tenth of a nanosecond to turn an element, 20 products a nanosecond, results written two by two or one by one.
double estimate_us(const Problem& p, int threads) {
  const auto turned = static_cast<double>(elements(p.x[0].shape)), results = static_cast<double>(elements(p.y));
  const double write_ns = p.w[1] * p.w[3] == 2 ? 0.1 : 0.8;
  return 1 + 1e-3 * (turned / 10 + results * (static_cast<double>(p.w[0]) / 20 + write_ns)) / threads;
}

}  // namespace

void offer_transposed_rows(const Request& r, Offer& offer) {
  if (!r.problem.transposed || r.problem.input != DType::f32 || r.node.inputs[0].layout == Layout::plain) return;  // lines
  if (auto why = rejects(r)) return offer.refuse("cpu", *why);
  offer.candidates.push_back({"cpu", "rows", estimate_us(r.problem, r.threads), [r, node = *r.node.node] {
                                Request own = r;
                                own.node.node = &node;
                                return std::make_unique<TransposedRowsConv>(own);
                              }});
}

}  // namespace smelt::ops::conv

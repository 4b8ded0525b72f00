#include "ops/conv/taps.h"

#include "base/number.h"
#include "expr/simd/widest.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

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

}  // namespace

const FloatTaps& float_taps() { return simd::widest_of(base::float_taps, avx2::float_taps, avx512::float_taps); }

TapsPlan::TapsPlan(const IntegerForm& f, int most_threads)
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

void TapsPlan::set_lines(const IntegerForm& f, int64_t n) {
  lines = n;
  rows = (lines - 1) * f.stride[1] + (f.kernel[1] - 1) * f.dilation[1] + 1;
  plane = divide_up(rows, f.stride[1]) * pitch;
  slice = plane * f.stride[1] * f.stride[2];
  channel = f.padded[0] * slice;
  places = (lines - 1) * pitch + f.out[2];
  to_step = divide_up(places, float_taps_lanes) * float_taps_lanes + float_taps_lanes;
}

Taps::Taps(const Problem& p, int threads, int64_t row_floats)
    : f_(form_of(p)), plan_(f_, threads), transposed_(p.transposed), row_floats_(row_floats) {
  for (int64_t c = 0; c < f_.group_channels(); ++c)
    for (int64_t t = 0; t < f_.taps(); ++t) {
      const int64_t x = t % f_.kernel[2] * f_.dilation[2], y = t / f_.kernel[2] % f_.kernel[1] * f_.dilation[1],
                    z = t / f_.kernel[2] / f_.kernel[1] * f_.dilation[0];
      offsets_.push_back(c * plan_.channel + z * plan_.slice +
                         (y % f_.stride[1] * f_.stride[2] + x % f_.stride[2]) * plan_.plane + y / f_.stride[1] * plan_.pitch +
                         x / f_.stride[2]);
    }
}

std::optional<Refusal> Taps::rejects(const BoundNode& node, const Problem& p, int threads) {
  if (p.spatial() < 1 || p.spatial() > 3)
    return refuse(Reason::wrong_rank, "taps: {} spatial axes; it knows 1 to 3", p.spatial());
  if (p.x.size() != 1 || p.x[0].upsample != 1) return refuse(Reason::unsupported, "taps: {} images, or larger ones", p.x.size());
  if (auto why = rejects_layouts(node)) return why;
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
  const TapsPlan plan(f, threads);
  constexpr int64_t most = 4 * TapsPlan::most_floats;
  if (f.group_channels() * plan.channel > most || f.group_outputs() * plan.to_step > most)
    return refuse(Reason::not_profitable, "taps: a line of all channels has {} floats with what it reads; it pays up to {}",
                  f.group_channels() * plan.channel, most);
  return std::nullopt;
}

double Taps::estimate_us(const Problem& p, int threads) {
  const IntegerForm f = form_of(p);
  const TapsPlan plan(f, threads);
  const double places = static_cast<double>(plan.chunks * divide_up(plan.places, float_taps_lanes) * float_taps_lanes * f.out[0]);
  const double folded = static_cast<double>(f.batch * f.outputs * f.depth()) * places / 32;
  const double copied = static_cast<double>(f.batch * f.channels * plan.chunks) * static_cast<double>(plan.channel);
  return 1 + 1e-3 * (folded * 0.6 + copied * 0.2 + static_cast<double>(elements(p.y)) * 0.2) / plan.threads;
}

int64_t Taps::turned(int64_t group, int64_t i, int64_t k) const {
  const int64_t taps = f_.taps(), c = group * f_.group_channels() + k / taps;
  return (c * f_.group_outputs() + i) * taps + taps - 1 - k % taps;
}

void Taps::pack(const float* w, float* out) const {
  const int64_t depth = f_.depth(), outputs = f_.group_outputs();
  for (int64_t g = 0; g < f_.group; ++g)
    for (int64_t m = 0; m < outputs; m += float_taps_results)
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t i = m; i < std::min(outputs, m + float_taps_results); ++i)
          *out++ = w[transposed_ ? turned(g, i, k) : (g * outputs + i) * depth + k];
}

Key Taps::packing() const {
  Key key("taps");
  key.field(Shape{f_.group, f_.outputs, f_.group_channels(), f_.taps()}).flag(" turned", transposed_);
  return key;
}

void Taps::clear_rows(int64_t begin, int64_t end, int64_t first, float* to) const {
  for (int64_t z = 0; z < f_.in[0]; ++z)
    for (int64_t r = begin; r < end; ++r)
      for (int64_t p = 0; p < f_.stride[2]; ++p) std::fill_n(line_at(z, r - first, to) + p * plan_.plane, plan_.pitch, 0.0f);
}

}  // namespace smelt::ops::conv

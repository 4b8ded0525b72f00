// Convolution of 8-bit integers by oneDNN: 32-bit sums in memory, and the epilogue over them while they are in the cache. Its
// kernels see unsigned bytes (signed ones those that multiply them as they are) and no zero points: the image's is folded into
// what the sums start from, and fills the padding of a copy where the padding is not 0. Weights of u8 less a zero point may need nine
// bits: a number is taken from those of an output channel so that they fit, and added back times the sum of each window's bytes, which
// is a second primitive's result, a convolution by ones.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "ops/conv/cpu_int8_image.h"
#include "ops/conv/int8_problem.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/epilogue.h"
#include "ops/cpu/onednn/offer.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/sums_pass.h"

namespace smelt::ops::conv {
namespace {

using dnnl::memory;

/// What the primitive computes: part of the image at a time.
struct Plan {
  bool flips = false;  // signed bytes of the image to unsigned ones
  std::optional<ByteImage> copy;
  Shape x;  // of the whole image, as the primitive sees it
  Shape pad_begin, pad_end;
  memory::data_type type = memory::data_type::u8;
  int64_t images = 1, lines = 1;               // made at a time: images, or lines of one image's result
  int64_t x_lines = 1;                         // that those are made from
  std::optional<onednn::Implementation> ones;  // of windows' sums, where weights have more than 8 bits
};

Plan plan(const Request& q, bool flips, int threads) {
  const Problem& p = q.problem;
  const BoundTensor& x = q.node.inputs[q.at.x];
  Plan r;
  r.flips = flips;
  if (x.type == DType::i8 && !r.flips) r.type = memory::data_type::s8;
  r.x = x.shape;
  r.pad_begin = p.pad_begin, r.pad_end = p.pad_end;
  const Shape none{0, 0};
  const bool padded = p.pad_begin != none || p.pad_end != none;
  const bool pads_with_zero = !q.quantization().a_zero_input && q.quantization().a_zero + (r.flips ? 128 : 0) == 0;
  if (r.flips || (padded && !pads_with_zero) || !is_channels_last(x) || !is_dense(x)) {
    r.copy.emplace(x, p.pad_begin, p.pad_end, r.flips, threads);
    r.x = r.copy->shape();
    r.pad_begin = r.pad_end = none;
  }
  const int64_t pixels = p.y[2] * p.y[3], lines = IntegerSums(p.y[1] * p.y[3], threads).rows_at_a_time(p.y[2]);
  r.images = IntegerSums(p.y[1] * pixels, threads).rows_at_a_time(p.y[0]);
  r.lines = p.y[2];
  r.x_lines = r.x[2];
  const bool pads_lines = r.pad_begin[0] != 0 || r.pad_end[0] != 0;
  if (lines < p.y[2] && !pads_lines) {
    r.images = 1;
    r.lines = lines;
    r.x_lines = (lines - 1) * p.stride[0] + (p.w[2] - 1) * p.dilation[0] + 1;
  }
  return r;
}

memory::desc channels_last(const Shape& s, memory::data_type type) { return {s, type, memory::format_tag::nhwc}; }

/// What is taken from each output channel's weights so that they have 8 bits; nothing where they have them, or no number does it.
std::vector<int32_t> beyond_8_bits(const Request& q) {
  const Problem& p = q.problem;
  const int64_t taps = p.w[2] * p.w[3];
  std::vector<int32_t> beyond(static_cast<size_t>(p.w[0]), 0);
  if (p.group > 1 || fit_8_bits(q)) return {};
  bool any = false;
  for (int64_t m = 0; m < p.w[0]; ++m) {
    int32_t low = 0, high = 0;
    for (int64_t i = 0; i < p.w[1] * taps; ++i) {
      const int32_t w = int8_weight(q, m, i / taps, i % taps);
      low = std::min(low, w), high = std::max(high, w);
    }
    if (high - low > 255) return {};
    beyond[static_cast<size_t>(m)] = low < -128 ? low + 128 : std::max(high - 127, 0);
    any = any || low < -128 || high > 127;
  }
  return any ? beyond : std::vector<int32_t>{};
}

int32_t at_or_0(const std::vector<int32_t>& v, int64_t i) { return v.empty() ? 0 : v[static_cast<size_t>(i)]; }

memory::dims weight_dims(const Problem& p) {
  memory::dims dims(p.w.begin(), p.w.end());
  if (p.group == 1) return dims;
  dims[0] /= p.group;
  dims.insert(dims.begin(), p.group);
  return dims;
}

std::vector<onednn::Implementation> choices(const Problem& p, const Plan& r, int threads, Offer& offer) {
  const Threads scope(threads);
  memory::dims dilation;
  for (int64_t d : p.dilation) dilation.push_back(d - 1);
  const Shape x{r.images, r.x[1], r.x_lines, r.x[3]};
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  auto found =
      onednn::implementations(dnnl::convolution_forward::primitive_desc(
                                  onednn::engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                  channels_last(x, r.type), onednn::any_layout(weight_dims(p), DType::i8),
                                  channels_last({r.images, p.y[1], r.lines, p.y[3]}, memory::data_type::s32), p.stride, dilation,
                                  r.pad_begin, r.pad_end, attr),
                              offer);
  onednn::leave_out_wrong(found, std::span(p.w).subspan(2), p.stride, offer);
  return found;
}

/// The implementation that sums windows: a convolution by ones, to one channel.
std::optional<onednn::Implementation> by_ones(Problem p, const Plan& r, int threads, Offer& offer) {
  const onednn::WeightRange range{.smallest = 0, .largest = 1, .column = depth(p)};
  p.w[0] = p.y[1] = 1;
  std::vector<onednn::Implementation> found = choices(p, r, threads, offer);
  const auto exact = std::ranges::find_if(found, [&](const onednn::Implementation& c) {
    return !onednn::rejects_sums(c.name, r.type == memory::data_type::s8, range);
  });
  return exact == found.end() ? std::nullopt : std::optional(std::move(*exact));
}

/// Adds each row's number times each column's to rows of sums.
void add_products(int32_t* sums, int64_t rows, const int32_t* of_row, const std::vector<int32_t>& of_column, int threads) {
  const auto columns = static_cast<int64_t>(of_column.size());
  const bool same = std::ranges::all_of(of_column, [&](int32_t c) { return c == of_column[0]; });
  parallel(useful_threads(threads, rows * columns), rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      auto* to = reinterpret_cast<uint32_t*>(sums + r * columns);  // sums wrap
      const auto row = static_cast<uint32_t>(of_row[r]);
      const uint32_t all = row * static_cast<uint32_t>(of_column[0]);
      if (same) {
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) to[c] += all;
      } else {
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) to[c] += row * static_cast<uint32_t>(of_column[static_cast<size_t>(c)]);
      }
    }
  });
}

class Int8Onednn final : public Kernel {
 public:
  Int8Onednn(const Request& q, Plan plan, std::vector<int32_t> beyond, const onednn::Implementation& choice, int threads)
      : p_(q.problem),
        plan_(std::move(plan)),
        beyond_(std::move(beyond)),
        threads_(threads),
        x_input_(q.at.x),
        sums_(p_.y[1], threads),
        zero_(q),
        start_(start_of_sums(q)),
        weights_(sums_of_weights(q)),
        less_zero_(start_.size()),
        epilogue_(q.node, q.at.operands, 1, q.quantization().scales),
        primitive_(choice.primitive(threads), choice.scratchpad) {
    const Tensor& w = q.weight().constant;
    const memory::desc layout = choice.weights;
    const auto pack = [&] { return pack_weights(q, layout); };
    const Key form = int8_packing(q, "onednn").field(p_.group).field(onednn::form_name(layout));
    packed_ = q.node.weights ? q.node.weights->packed(w, form.text(), pack) : pack();
    primitive_.add(DNNL_ARG_SRC, choice.source);
    primitive_.add(DNNL_ARG_WEIGHTS, layout, packed_.raw());
    primitive_.add(DNNL_ARG_DST, choice.result);
    if (!plan_.ones) return;
    const onednn::Implementation& ones = *plan_.ones;
    ones_.emplace(ones.primitive(threads), ones.scratchpad);
    Tensor all = Tensor::empty(DType::i8, {1, p_.w[1], p_.w[2], p_.w[3]});
    std::fill_n(all.data<int8_t>(), all.size(), int8_t{1});
    packed_ones_ = onednn::packed(all, {all.shape(), memory::data_type::s8, strides(all.shape())}, ones.weights, threads);
    ones_->add(DNNL_ARG_SRC, ones.source);
    ones_->add(DNNL_ARG_WEIGHTS, ones.weights, packed_ones_.raw());
    ones_->add(DNNL_ARG_DST, ones.result);
  }

  int64_t workspace() const override {
    return copy_bytes() + scratch_bytes() + sums_.bytes(pixels()) + windows_bytes() + threads_ * epilogue_.scratch();
  }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    const Threads scope(threads_);
    char* memory = static_cast<char*>(b.workspace);
    const uint8_t* image = static_cast<const uint8_t*>(b.inputs[x_input_]);
    const int32_t zero = zero_.of(b) + (plan_.flips ? 128 : 0);
    bool starts = false;  // Σ (x - zero) · w = Σ x · w - zero · Σ w
    for (size_t m = 0; m < start_.size(); ++m) {
      less_zero_[m] = start_[m] - zero * weights_[m];
      starts |= less_zero_[m] != 0;
    }
    if (plan_.copy) {
      plan_.copy->run(reinterpret_cast<uint8_t*>(memory), image, static_cast<uint8_t>(zero));
      image = reinterpret_cast<const uint8_t*>(memory);
      memory += copy_bytes();
    }
    char* scratch = memory;
    memory += scratch_bytes();
    int32_t* sums = reinterpret_cast<int32_t*>(memory);
    memory += sums_.bytes(pixels());
    int32_t* windows = reinterpret_cast<int32_t*>(memory);
    memory += windows_bytes();
    const CpuEpilogue::Runner finish(epilogue_, b, memory, 0, starts ? less_zero_.data() : nullptr);
    const int64_t x_line = plan_.x[3] * plan_.x[1], x_image = plan_.x[2] * x_line;
    int64_t row = 0;
    for (int64_t n = 0; n < p_.y[0]; n += plan_.images) {
      for (int64_t line = 0; line < p_.y[2]; line += plan_.lines, row += pixels()) {
        primitive_.set(DNNL_ARG_SRC, const_cast<uint8_t*>(image + n * x_image + line * p_.stride[0] * x_line));
        primitive_.set(DNNL_ARG_DST, sums);
        primitive_.run(scratch);
        if (ones_) {
          ones_->set(DNNL_ARG_SRC, const_cast<uint8_t*>(image + n * x_image + line * p_.stride[0] * x_line));
          ones_->set(DNNL_ARG_DST, windows);
          ones_->run(scratch);
          add_products(sums, pixels(), windows, beyond_, threads_);
        }
        sums_.run(sums, row, pixels(), finish);
      }
    }
  }

 private:
  int64_t copy_bytes() const { return plan_.copy ? aligned(plan_.copy->bytes()) : 0; }
  int64_t scratch_bytes() const { return aligned(std::max(primitive_.scratch(), ones_ ? ones_->scratch() : 0)); }
  int64_t windows_bytes() const { return ones_ ? aligned(pixels() * 4) : 0; }
  /// Of the result, made at a time.
  int64_t pixels() const { return plan_.images * plan_.lines * p_.y[3]; }

  Tensor pack_weights(const Request& q, const memory::desc& layout) const {
    Tensor w = q.weight().constant;
    if (!has_narrow_weights(q)) {
      w = Tensor::empty(DType::i8, p_.w);
      const int64_t taps = p_.w[2] * p_.w[3], depth = p_.w[1] * taps;
      for (int64_t i = 0; i < w.size(); ++i)
        w.data<int8_t>()[i] =
            static_cast<int8_t>(int8_weight(q, i / depth, i % depth / taps, i % taps) - at_or_0(beyond_, i / depth));
    }
    const memory::dims dims = weight_dims(p_);
    return onednn::packed(w, {dims, memory::data_type::s8, strides(dims)}, layout, threads_);
  }

  Problem p_;
  Plan plan_;
  std::vector<int32_t> beyond_;  // taken from the weights of each channel; empty: nothing
  int threads_;
  size_t x_input_;
  IntegerSums sums_;
  ImageZero zero_;
  std::vector<int32_t> start_, weights_;  // weights_: their sums
  std::vector<int32_t> less_zero_;        // start_ for the run's zero point
  CpuEpilogue epilogue_;
  onednn::Primitive primitive_;
  Tensor packed_;
  std::optional<onednn::Primitive> ones_;
  Tensor packed_ones_;
};

}  // namespace

void offer_int8_onednn(const Request& q, Offer& offer) {
  if (!offer.asks_for("onednn")) return;
  if (const auto why = rejects_int8(q)) return offer.refuse("onednn", *why);
  const Problem& p = q.problem;
  if (p.inside() == 0) return offer.refuse("onednn", Reason::wrong_shape, "no tap of a window lies in the image");
  const int64_t taps = p.w[2] * p.w[3];
  const std::vector<int32_t> beyond = beyond_8_bits(q);
  const onednn::WeightRange range = onednn::weight_range(
      p.w[0], p.w[1] * taps, [&](int64_t m, int64_t k) { return int8_weight(q, m, k / taps, k % taps) - at_or_0(beyond, m); });
  onednn::offer_exact(offer, range, [&, threads = q.threads] {
    const bool is_signed = q.node.inputs[q.at.x].type == DType::i8;
    Plan shifted = plan(q, is_signed, threads);
    std::vector<onednn::Implementation> found = choices(p, shifted, threads, offer);
    if (!beyond.empty()) {
      Offer all;
      shifted.ones = by_ones(p, shifted, threads, all);
      if (!shifted.ones) found.clear();
    }
    std::optional<Plan> as_it_is;  // of signed bytes that AMX multiplies
    const auto on_amx = [](const onednn::Implementation& c) { return onednn::names(c.name, "amx"); };
    if (is_signed && beyond.empty() && onednn::multiplies_signed_bytes()) {
      as_it_is = plan(q, false, threads);
      std::erase_if(found, on_amx);
      std::ranges::copy_if(choices(p, *as_it_is, threads, offer), std::back_inserter(found), on_amx);
    }
    const auto plan_of = [=](const onednn::Implementation& c) { return as_it_is && on_amx(c) ? *as_it_is : shifted; };
    constexpr double passed_per_us = 4e3, copied_per_us = 8e3;  // sums, and bytes, of one core
    const bool depthwise = p.group > 1 && p.w[1] == 1;
    return onednn::ByteProducts{
        std::move(found), false,
        [=, flops = p.flops(), sums = static_cast<double>(elements(p.y))](const onednn::Implementation& c) {
          const Plan r = plan_of(c);
          constexpr double ones_like = 16;  // output channels that take as long
          const double copied = r.copy ? static_cast<double>(r.copy->bytes()) / copied_per_us : 0;
          const double moved = (r.ones ? 2 : 1) * sums / passed_per_us + copied;
          const double all = r.ones ? flops * (1 + ones_like / static_cast<double>(p.w[0])) : flops;
          return 5 + (all / onednn::byte_flops_per_us(c.name, depthwise) + moved) / threads;
        },
        [=](const onednn::Implementation& c) { return std::make_unique<Int8Onednn>(q, plan_of(c), beyond, c, threads); }};
  });
}

}  // namespace smelt::ops::conv

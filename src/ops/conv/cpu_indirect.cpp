// Convolution as an indirect matrix product over channels-last images: A's rows are pixels, one part for each tap and input,
// read where they lie. Several inputs (a concatenation), nearest-neighbour upsampling, and slices of other tensors
// on either side cost nothing. Images of few channels are copied once with their padding in place, so that a whole row of taps is
// contiguous; a transposed convolution whose window equals its stride is one product for each row of taps, whose results are
// neighbours in a line of the image. Each group is a product of its own channels.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/value_of.h"
#include "expr/simd/isa.h"
#include "ops/conv/cpu_indirect_rows.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/padded_line.h"
#include "ops/core/align.h"
#include "ops/core/channels_last.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/igemm/tiles.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/transpose_block.h"

namespace smelt::ops::conv {
namespace {

/// How A's rows are found.
enum class Form { window, padded, transposed };

Form form(const Problem& p) {
  if (p.transposed) return Form::transposed;
  // A part of A for each tap costs more than a copy of pixels that lie channels-last, where most of them are read by several windows: 5
  // channels to 16 by 5 x 5 took 121 us, not 257, 16 to 16 366, not 460; by 3 x 3 8 to 16 took 83, not 109. Of 16 to 16 by 3 x 3 large images
  // took 4% more, and 8 to 16 at a stride of 2 took 30 us, not 28.
  const bool is_beside = p.from == Layout::nhwc && !p.stride.empty() && p.stride.back() == 1 && p.w.back() > 1;
  const int64_t few_beside = p.w.back() < 5 ? 12 : 16;
  return copies_with_padding(p) || (is_beside && copies_with_padding(p, few_beside)) ? Form::padded : Form::window;
}

/// How many groups are multiplied as one: of four channels and four results, as many as fill a tile.
int64_t joined_groups(const Problem& p) {
  if (p.w[1] != 4 || p.y[1] != 4 * p.group) return 1;
  return p.group % 4 == 0 ? 4 : p.group % 2 == 0 ? 2 : 1;
}

/// How many taps of a transposed one are columns of one product: a row of them, where its pixels are neighbours in memory.
int64_t taps_at_once(const Problem& p) { return p.y_strides.empty() ? p.w[3] : 1; }

std::optional<Refusal> rejects(const Request& r) {
  const Problem& p = r.problem;
  const BoundNode& b = r.node;
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2 and FMA");
  if (p.spatial() != 2) return refuse(Reason::wrong_rank, "{} spatial axes; it knows 2", p.spatial());
  if (p.group != 1 && (p.transposed || p.x.size() > 1))
    return refuse(Reason::wrong_attribute, "group = {} of {}; it knows 1", p.group,
                  p.transposed ? "a transposed one" : "several inputs");
  const auto floating = [](DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; };
  if (!floating(p.input) || !floating(p.output))
    return refuse(Reason::wrong_type, "types {} > {}", smelt::name(p.input), smelt::name(p.output));
  if (!b.inputs[r.at.w].constant.valid()) return refuse(Reason::not_constant, "the weight is not constant");
  if (r.at.b < b.inputs.size() && b.inputs[r.at.b].type != DType::undefined && !b.inputs[r.at.b].constant.valid())
    return refuse(Reason::not_constant, "the bias is not constant");
  if (!is_channels_last(b.outputs[0])) return refuse(Reason::wrong_layout, "output layout {}; it writes nhwc", name(p.to));
  const Form f = form(p);
  for (size_t i = 0; i < p.x.size(); ++i) {
    const BoundTensor& x = b.inputs[i];
    if (x.type != p.input) return refuse(Reason::wrong_type, "inputs of several types");
    if (f == Form::padded) continue;
    if (!is_channels_last(x)) return refuse(Reason::wrong_layout, "input layout {}; it reads nhwc", name(x.layout));
    if (x.type != DType::f32 && p.x.size() > 1) return refuse(Reason::wrong_type, "several inputs of {}", smelt::name(x.type));
  }
  if (f == Form::transposed) {
    if (!windows_lie_side_by_side(p))
      return refuse(Reason::unsupported, "a transposed convolution whose windows overlap or are padded");
    if (p.output != DType::f32) return refuse(Reason::wrong_type, "transposed with output {}", smelt::name(p.output));
    // A product's rows and columns are no places of the result that operands would be read at.
    const CpuEpilogue epilogue(b, r.at.operands, 1, bias(b, r.at));
    const auto& simple = epilogue.simple();
    if (!simple || epilogue.residual() >= 0 || simple->end.is_scaled)
      return refuse(Reason::unsupported, "transposed, with a program other than an activation");
  }
  if (auto why = rejects_operands(b.inputs.size() - std::min(b.inputs.size(), r.at.operands))) return why;
  return std::nullopt;
}

class IndirectConv final : public Kernel {
 public:
  IndirectConv(const BoundNode& node, const Problem& p, const Arguments& at, int threads)
      : p_(p),
        form_(form(p)),
        threads_(threads),
        epilogue_(node, at.operands, 1, bias(node, at)),
        input_(node.inputs[0]),
        converted_(input_, threads),
        strides_(memory_strides(input_)) {
    std::vector<Shape> pixels;
    for (size_t i = 0; i < p.x.size(); ++i) {
      BoundTensor x = node.inputs[i];
      if (converts()) x = dense_f32(x);
      const Shape s = memory_strides(x);
      pixels.push_back({s[0], s[2], s[3]});
    }
    const std::vector<igemm::Part> parts = igemm::split(source_lengths());
    if (form_ == Form::padded)
      padded_.emplace(p, parts);
    else
      window_.emplace(p, pixels, parts);
    const int64_t rows = p.transposed ? p.x[0].shape[0] * p.x[0].shape[2] * p.x[0].shape[3] : p.y[0] * p.y[2] * p.y[3];
    const int64_t joined = joined_groups(p), groups = p.group / joined;
    if (p.transposed) taps_at_once_ = taps_at_once(p);
    schedule_ = igemm::schedule(rows, taps_at_once_ * p.y[1] / groups, parts, !epilogue_.simple(), threads, groups);
    schedule_.group_step = p.w[1] * joined;
    schedule_.quads = joined > 1;
    pack(node, at, parts);
    if (p.transposed) {
      const Shape s = memory_strides(node.outputs[0]);
      const Shape grid = {p.x[0].shape[0], p.x[0].shape[2], p.x[0].shape[3]};
      scattered_ = igemm::RowMap(grid, Shape{s[0], s[2] * p.stride[0], s[3] * p.stride[1]});
      step_y_ = s[2];
      step_x_ = s[3];
      bias_of_taps();
    }
  }

  int64_t workspace() const override {
    return aligned(copy_floats() * 4) + aligned(igemm::workspace(schedule_)) + threads_ * epilogue_.scratch();
  }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    float* copy = reinterpret_cast<float*>(memory);
    memory += aligned(copy_floats() * 4);
    igemm::Run r;
    r.workspace = memory;
    memory += aligned(igemm::workspace(schedule_));
    if (padded_) {
      PaddedRows& rows = *padded_;
      copy_padded(rows, copy, b.inputs[0]);
      rows.set_image(copy);
      r.rows = &rows;
    } else {
      WindowRows& rows = value_of(window_, "the rows of windows");
      if (converts()) converted_.run(copy, b.inputs[0]);
      for (size_t i = 0; i < p_.x.size(); ++i) rows.set_input(i, converts() ? copy : static_cast<const float*>(b.inputs[i]));
      r.rows = &rows;
    }
    const CpuEpilogue::Runner runner(epilogue_, b, memory);
    runner.end(r);
    if (!p_.transposed) {
      r.b = packed_.data<float>();
      if (padded_ && goes_by_lines(r)) return run_lines(*padded_, r);
      igemm::run(schedule_, r);
      return;
    }
    r.c_rows = &scattered_;
    if (!bias_of_taps_.empty()) r.bias = bias_of_taps_.data();
    for (int64_t tap = 0; tap < p_.w[2] * p_.w[3]; tap += taps_at_once_) {
      r.b = packed_.data<float>() + tap / taps_at_once_ * igemm::packed_floats(schedule_.k, schedule_.n);
      r.c = static_cast<float*>(b.outputs[0]) + tap / p_.w[3] * step_y_ + tap % p_.w[3] * step_x_;
      igemm::run(schedule_, r);
    }
  }

 private:
  bool converts() const { return form_ != Form::padded && p_.input != DType::f32; }

  static BoundTensor dense_f32(BoundTensor x) {
    x.type = DType::f32;
    x.strides.clear();
    return x;
  }

  std::vector<int64_t> source_lengths() const {
    if (form_ == Form::transposed) return {p_.x[0].shape[1]};
    if (form_ == Form::padded) return std::vector<int64_t>(static_cast<size_t>(p_.w[2]), p_.w[3] * p_.channels());
    std::vector<int64_t> lengths;
    for (int64_t tap = 0; tap < p_.w[2] * p_.w[3]; ++tap) {
      for (const Input& x : p_.x) lengths.push_back(x.shape[1] / p_.group);
    }
    return lengths;
  }

  int64_t copy_floats() const {
    if (padded_) return padded_->floats();
    return converts() ? elements(p_.x[0].shape) : 0;
  }

  /// The bias for each of the taps that are columns of one product, with a panel's width of zeros behind.
  void bias_of_taps() {
    const auto outputs = static_cast<size_t>(p_.y[1]);
    if (epilogue_.bias().empty()) return;
    bias_of_taps_.assign(static_cast<size_t>(schedule_.n) + igemm::tile_columns, 0.0f);
    for (size_t i = 0; i < static_cast<size_t>(schedule_.n); ++i) bias_of_taps_[i] = epilogue_.bias()[i % outputs];
  }

  /// Offsets into w of B's rows, in the parts' order.
  std::vector<int64_t> weight_rows(const std::vector<igemm::Part>& parts) const {
    const int64_t taps = p_.w[2] * p_.w[3], inputs = static_cast<int64_t>(p_.x.size());
    std::vector<int64_t> first_channel(p_.x.size(), 0);
    for (size_t i = 1; i < p_.x.size(); ++i) first_channel[i] = first_channel[i - 1] + p_.x[i - 1].shape[1];
    std::vector<int64_t> rows;
    for (const igemm::Part& part : parts) {
      for (int64_t k = part.offset; k < part.offset + part.length; ++k) {
        if (form_ == Form::transposed)
          rows.push_back(k * p_.w[1] * taps);
        else if (form_ == Form::padded)
          rows.push_back(k % p_.channels() * taps + part.source * p_.w[3] + k / p_.channels());
        else
          rows.push_back((first_channel[static_cast<size_t>(part.source % inputs)] + k) * taps + part.source / inputs);
      }
    }
    return rows;
  }

  void pack(const BoundNode& node, const Arguments& at, const std::vector<igemm::Part>& parts) {
    const Tensor& w = node.inputs[at.w].constant;
    const int64_t taps = p_.w[2] * p_.w[3], one = igemm::packed_floats(schedule_.k, schedule_.n);
    const FormKind is{DType::f32, {(p_.transposed ? taps / taps_at_once_ : schedule_.groups) * one}};
    const auto make = [&] {
      const Tensor source = w.type() == DType::f32 ? w : w.cast(DType::f32);
      const std::vector<int64_t> rows = weight_rows(parts);
      Tensor t = Tensor::empty(is.type, is.shape);
      if (!p_.transposed) {
        const int64_t columns = schedule_.n, column = p_.w[1] * taps;
        for (int64_t g = 0; g < schedule_.groups; ++g)
          igemm::pack(t.data<float>() + g * one, source.data<float>() + g * columns * column, rows, column, columns);
        return t;
      }
      // A channel's taps lie side by side there; as columns, a tap's channels do.
      std::vector<float> turned(static_cast<size_t>(schedule_.k * schedule_.n));
      std::vector<int64_t> turned_rows;
      for (int64_t k = 0; k < schedule_.k; ++k) turned_rows.push_back(k * schedule_.n);
      for (int64_t tap = 0; tap < taps; tap += taps_at_once_) {
        for (size_t i = 0; i < turned.size(); ++i) {
          const int64_t k = static_cast<int64_t>(i) / schedule_.n, column = static_cast<int64_t>(i) % schedule_.n;
          turned[i] = source.data<float>()[rows[static_cast<size_t>(k)] + column % p_.y[1] * taps + tap + column / p_.y[1]];
        }
        igemm::pack(t.data<float>() + tap / taps_at_once_ * one, turned.data(), turned_rows, 1, schedule_.n);
      }
      return t;
    };
    Key form("igemm");
    form.field(static_cast<int>(form_)).field(p_.w).flag(":transposed", p_.transposed).flag(":rows of taps", taps_at_once_ > 1);
    for (const Input& x : p_.x) form.option("+", x.shape[1]);
    packed_ = node.weights ? node.weights->packed(w, form.text(), is, make) : make();
  }

  /// Whether the windows of a line are taken together: AVX-512 alone has a kernel for that, which knows bounds as its end.
  bool goes_by_lines(const igemm::Run& r) const {
    const bool ends = r.end.activation == igemm::Activation::none || r.end.activation == igemm::Activation::clamp;
    return simd::widest() == simd::Isa::avx512 && p_.group == 1 && !r.finish && !r.residual && !r.end.is_scaled && ends &&
           schedule_.block_k.size() == 1 && static_cast<int64_t>(schedule_.lengths.size()) == p_.w[2];
  }

  void run_lines(const PaddedRows& rows, const igemm::Run& r) const {
    const bool clamps = r.end.activation == igemm::Activation::clamp;
    constexpr float infinite = std::numeric_limits<float>::infinity();
    const int64_t width = p_.y[3], lines = p_.y[0] * p_.y[2];
    const PaddedLine all{.step = rows.step(),
                         .row = p_.dilation[0] * rows.width * p_.channels(),
                         .rows = p_.w[2],
                         .length = p_.w[3] * p_.channels(),
                         .weights = r.b,
                         .bias = r.bias,
                         .columns = p_.y[1],
                         .y_step = width > 1 ? r.c_rows->offset(1) - r.c_rows->offset(0) : 0,
                         .pixels = width,
                         .low = clamps ? r.end.low : -infinite,
                         .high = clamps ? r.end.high : infinite};
    parallel(threads_, lines, 1, [&](int64_t begin, int64_t end, int) {
      PaddedLine line = all;
      for (int64_t i = begin; i < end; ++i) {
        line.image = rows.line(i);
        line.y = r.c + r.c_rows->offset(i * width);
        avx512::convolve_line(line);
      }
    });
  }

  /// A line of the image as f32, its channels side by side.
  void copy_line_of_pixels(float* to, const char* from, int64_t width, int bytes) const {
    const int64_t channels = p_.channels();
    const Shape& s = strides_;
    if (s[1] == 1 && s[3] == channels) return copy_as_f32(to, 1, from, 1, width * channels, input_.type);
    int64_t done = 0;
#ifdef __SSE2__
    if (input_.type == DType::f32 && s[3] == 1 && channels > 1 && channels < 4) {
      done = put_together<uint32_t, 4>(reinterpret_cast<uint32_t*>(to), reinterpret_cast<const uint32_t*>(from), width, channels,
                                       s[1]);
    }
#endif
    for (int64_t c = 0; c < channels; ++c)
      copy_as_f32(to + done * channels + c, channels, from + (c * s[1] + done * s[3]) * bytes, s[3], width - done, input_.type);
  }

  /// [N, C, H, W] in any layout and type to [N, H + pads, W + pads, C] in f32.
  void copy_padded(const PaddedRows& rows, float* to, const void* from) const {
    const int64_t channels = p_.channels(), row = rows.width * channels, height = p_.x[0].shape[2], width = p_.x[0].shape[3];
    const Shape& s = strides_;
    const int bytes = static_cast<int>(smelt::bytes(input_.type, 1));
    const auto copy_line = [&](int64_t line) {
      const int64_t n = line / rows.height, y = line % rows.height - p_.pad_begin[0];
      float* out = to + line * row;
      if (y < 0 || y >= height) {
        std::fill_n(out, row, 0.0f);
        return;
      }
      std::fill_n(out, p_.pad_begin[1] * channels, 0.0f);
      std::fill_n(out + (p_.pad_begin[1] + width) * channels, p_.pad_end[1] * channels, 0.0f);
      copy_line_of_pixels(out + p_.pad_begin[1] * channels, static_cast<const char*>(from) + (n * s[0] + y * s[2]) * bytes, width,
                          bytes);
    };
    parallel(threads_, p_.y[0] * rows.height, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) copy_line(line);
    });
  }

  Problem p_;
  Form form_;
  int threads_;
  CpuEpilogue epilogue_;
  BoundTensor input_;
  ConvertToF32 converted_;
  Shape strides_;
  std::optional<WindowRows> window_;
  std::optional<PaddedRows> padded_;
  igemm::Schedule schedule_;
  Tensor packed_;
  igemm::RowMap scattered_;
  int64_t step_y_ = 0, step_x_ = 0, taps_at_once_ = 1;
  std::vector<float> bias_of_taps_;
};

}  // namespace

void offer_indirect(const Request& r, Offer& offer) {
  const Problem& p = r.problem;
  if (p.group > 1 && p.w[1] == 1 && p.y[1] == p.group) return;  // depthwise, which has kernels of its own
  if (const auto why = rejects(r)) return offer.refuse("avx2", *why);
  const double flops_per_us = 90e3 * igemm::rate();  // of one Zen 3 core at 3.2 GHz, measured on 6 × 16 tiles
  // Groups of few columns fill a part of a tile, and so do the taps of a transposed one.
  const int64_t taps = p.transposed ? taps_at_once(p) : 1;
  const int64_t n = std::max<int64_t>(p.y[1] / std::max<int64_t>(p.group, 1), 1) * joined_groups(p) * taps;
  const double filled = p.group > 1 || p.transposed ? static_cast<double>(n) / static_cast<double>(igemm::packed_columns(n)) : 1;
  // Each row of a transposed one's products is written on its own.
  const int64_t pixels = elements(p.y) / std::max<int64_t>(p.y[1], 1);
  const double scattered_us = p.transposed ? static_cast<double>(pixels) / static_cast<double>(taps) * 8e-3 : 0;
  offer.candidates.push_back({"avx2", "indirect", 2 + (p.flops() * p.inside() / flops_per_us / filled + scattered_us) / r.threads,
                              [node = r.node, p = r.problem, at = r.at, threads = r.threads] {
                                return std::make_unique<IndirectConv>(node, p, at, threads);
                              }});
}

}  // namespace smelt::ops::conv

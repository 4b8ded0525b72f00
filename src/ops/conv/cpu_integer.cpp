// ConvInteger on the processor: the image is copied channels last with its padding in place (the image's zero point, which may be
// computed), each place's taps become a row, and MatMulInteger's kernels multiply rows by the weights, some lines at a time.
// Groups are products of their own. Few channels or outputs, grouped or not: a direct loop over all places of a tap.
#include <algorithm>
#include <cstring>

#include "base/number.h"
#include "expr/simd/isa.h"
#include "ops/conv/conv.h"
#include "ops/conv/offer.h"
#include "ops/conv/simd/integer_taps.h"
#include "ops/core/align.h"
#include "ops/core/quantized_program.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/short_lines.h"
#include "ops/cpu/strided_copy.h"
#include "ops/matmul/family.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t most_unfolded = 1 << 20;  // bytes of rows at a time: they stay in the cores' caches

/// Three spatial axes: unit ones in front of what the image has.
struct Form {
  int64_t batch = 0, channels = 0, outputs = 0, group = 1;
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], padded[3];
  Shape from;  // strides of x
  int64_t plane() const { return out[0] * out[1] * out[2]; }
  int64_t group_channels() const { return channels / group; }
  int64_t group_outputs() const { return outputs / group; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t depth() const { return taps() * group_channels(); }
  /// Each place's row is its pixel, as the copy has it.
  bool is_pointwise() const {
    return taps() == 1 && group == 1 && std::ranges::equal(padded, out) && stride[0] * stride[1] * stride[2] == 1;
  }
};

Result<Form> form_of(const BoundNode& b) {
  const BoundTensor &x = b.inputs[0], &w = b.inputs[1], &y = b.outputs[0];
  if (!w.constant.valid() || (b.has(3) && !b.constant(3)))
    return refuse(Reason::not_constant, "the weight or its zero point is not constant");
  if (!is_byte(x.type) || !is_byte(w.type)) return refuse(Reason::wrong_type, "operands that are no bytes");
  if (b.has(2) && elements(b.inputs[2].shape) != 1) return refuse(Reason::wrong_shape, "several zero points of the image");
  if (x.shape.size() < 3 || x.shape.size() > 5) return refuse(Reason::wrong_rank, "{} axes", x.shape.size());
  if (y.layout != Layout::plain || !is_dense(y)) return refuse(Reason::wrong_layout, "a result that is not dense and row-major");
  if (elements(x.shape) == 0 || elements(y.shape) == 0 || elements(w.shape) == 0)
    return refuse(Reason::wrong_shape, "an empty tensor");
  const ConvProblem p = conv_problem(*b.node, x.shape, w.shape);
  Form f;
  f.batch = p.n, f.channels = p.c, f.outputs = p.m, f.group = p.group;
  const Shape steps = memory_strides(x);
  const size_t lead = 3 - p.in.size();
  f.from = {steps[0], steps[1]};
  for (size_t k = 0; k < 3; ++k) {
    const bool there = k >= lead;
    const size_t a = there ? k - lead : 0;
    const auto get = [&](const Shape& s, int64_t otherwise) { return there ? s[a] : otherwise; };
    f.in[k] = get(p.in, 1), f.out[k] = get(p.out, 1), f.kernel[k] = get(p.window.kernel, 1);
    f.stride[k] = get(p.window.stride, 1), f.dilation[k] = get(p.window.dilation, 1), f.begin[k] = get(p.window.pad_begin, 0);
    f.padded[k] = f.in[k] + f.begin[k] + get(p.window.pad_end, 0);
    f.from.push_back(there ? steps[a + 2] : 0);
  }
  return f;
}

/// Lines of places made at a time: a divisor of an image's.
int64_t lines_at_a_time(const Form& f) {
  const int64_t all = f.out[0] * f.out[1], most = std::max<int64_t>(1, most_unfolded / (f.out[2] * f.depth()));
  for (int64_t n = std::min(all, most); n > 1; --n)
    if (all % n == 0) return n;
  return 1;
}

/// The product of a group's rows, [rows, depth] · [depth, outputs] less the zero points.
struct GroupProduct {
  Node node;
  BoundNode bound;
};

std::shared_ptr<GroupProduct> product_of(const BoundNode& b, const Form& f, int64_t group, int64_t rows) {
  auto g = std::make_shared<GroupProduct>();
  g->node.op = "MatMulInteger";
  const BoundTensor &x = b.inputs[0], &w = b.inputs[1];
  const int64_t depth = f.depth(), m = f.group_outputs(), c = f.group_channels(), taps = f.taps();
  Tensor weights = Tensor::empty(w.type, {depth, m});
  const auto* from = static_cast<const uint8_t*>(w.constant.raw()) + group * m * depth;
  auto* to = static_cast<uint8_t*>(weights.raw());
  for (int64_t o = 0; o < m; ++o)
    for (int64_t i = 0; i < c; ++i)
      for (int64_t t = 0; t < taps; ++t) to[(t * c + i) * m + o] = from[(o * c + i) * taps + t];
  g->bound.node = &g->node;
  g->bound.inputs = {{x.type, {rows, depth}}, {w.type, {depth, m}}};
  g->bound.inputs[1].constant = weights;
  if (b.has(2) || b.has(3)) g->bound.inputs.push_back(b.has(2) ? b.inputs[2] : BoundTensor{});
  if (b.has(3)) {
    BoundTensor zero = b.inputs[3];
    if (zero.constant.size() > 1) {
      const auto* z = static_cast<const uint8_t*>(zero.constant.raw()) + group * m;
      Tensor own = Tensor::empty(w.type, {m});
      std::memcpy(own.raw(), z, static_cast<size_t>(m));
      zero.constant = own;
      zero.shape = {m};
    }
    g->bound.inputs.push_back(zero);
  }
  g->bound.outputs = {{DType::i32, {rows, m}}};
  return g;
}

/// A group's kernel, and what it reads of its weights and their zero point at each run.
struct PreparedProduct {
  PreparedProduct(const GroupProduct& g, std::unique_ptr<Kernel> k) : kernel(std::move(k)) {
    const auto constant = [&](size_t i) {
      return g.bound.constant(i) && kernel->reads(i) ? g.bound.inputs[i].constant : Tensor();
    };
    weights = constant(1), zero = constant(3);
  }
  std::unique_ptr<Kernel> kernel;
  Tensor weights, zero;
};

class IntegerConv final : public Kernel {
 public:
  IntegerConv(const BoundNode& b, const Form& f, std::vector<PreparedProduct> products, int threads)
      : f_(f),
        products_(std::move(products)),
        threads_(threads),
        has_zero_(b.has(2)),
        inputs_(b.inputs.size()),
        lines_(lines_at_a_time(f)),
        image_(copy_of(f, threads)),
        result_({f.group_outputs(), rows()}, {1, f.group_outputs()}, {f.plane(), 1}, 4, threads) {
    for (const auto& p : products_) inner_ = std::max(inner_, p.kernel->workspace());
  }
  int64_t workspace() const override {
    return aligned(image_bytes()) + aligned(unfolded_bytes()) + aligned(sums_bytes()) + inner_;
  }

  void run(const Buffers& b) override {
    auto* image = static_cast<uint8_t*>(b.workspace);
    uint8_t* unfolded = image + aligned(image_bytes());
    auto* sums = reinterpret_cast<int32_t*>(unfolded + aligned(unfolded_bytes()));
    char* inner = reinterpret_cast<char*>(sums) + aligned(sums_bytes());
    const uint8_t zero = has_zero_ ? *static_cast<const uint8_t*>(b.inputs[2]) : uint8_t{0};
    if (!std::ranges::equal(f_.in, f_.padded)) {
      parallel(useful_threads(threads_, image_bytes() / 8), image_bytes(), 4096,
               [&](int64_t begin, int64_t end, int) { std::memset(image + begin, zero, static_cast<size_t>(end - begin)); });
    }
    image_.run(image + ((f_.begin[0] * f_.padded[1] + f_.begin[1]) * f_.padded[2] + f_.begin[2]) * f_.channels, b.inputs[0]);
    auto* y = static_cast<int32_t*>(b.outputs[0]);
    const int64_t steps = f_.out[0] * f_.out[1] / lines_;
    std::ranges::copy(b.inputs, inputs_.begin());
    for (int64_t i = 0; i < f_.batch * steps; ++i) {
      const int64_t n = i / steps, line = i % steps * lines_;
      for (int64_t g = 0; g < f_.group; ++g) {
        const uint8_t* rows_from = image + n * image_bytes() / f_.batch + line * f_.out[2] * f_.channels;
        if (!f_.is_pointwise()) {
          unfold(image, unfolded, n, line, g);
          rows_from = unfolded;
        }
        const PreparedProduct& product = products_[static_cast<size_t>(g)];
        const void* const in[] = {rows_from, product.weights.raw(), has_zero_ ? b.inputs[2] : nullptr, product.zero.raw()};
        void* out = sums;
        product.kernel->run({std::span(in, std::max<size_t>(2, inputs_.size())), std::span(&out, 1), inner});
        result_.run(y + (n * f_.outputs + g * f_.group_outputs()) * f_.plane() + line * f_.out[2], sums);
      }
    }
  }

 private:
  static StridedCopy copy_of(const Form& f, int threads) {
    const int64_t pixel = f.channels, line = f.padded[2] * pixel, slice = f.padded[1] * line;
    return {{f.batch, f.channels, f.in[0], f.in[1], f.in[2]}, f.from, {f.padded[0] * slice, 1, slice, line, pixel}, 1, threads};
  }
  int64_t rows() const { return lines_ * f_.out[2]; }
  int64_t image_bytes() const { return f_.batch * f_.channels * f_.padded[0] * f_.padded[1] * f_.padded[2]; }
  int64_t unfolded_bytes() const { return f_.is_pointwise() ? 0 : rows() * f_.depth(); }
  int64_t sums_bytes() const { return rows() * f_.group_outputs() * 4 + 128; }

  void unfold(const uint8_t* image, uint8_t* to, int64_t n, int64_t first, int64_t g) const {
    const int64_t c = f_.group_channels(), pixel = f_.channels, line_step = f_.padded[2] * pixel,
                  slice = f_.padded[1] * line_step;
    const bool adjacent = f_.dilation[2] == 1 && f_.group == 1;
    parallel(useful_threads(threads_, unfolded_bytes() / 4), lines_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t l = begin; l < end; ++l) {
        const int64_t d = (first + l) / f_.out[1], h = (first + l) % f_.out[1];
        uint8_t* row = to + l * f_.out[2] * f_.depth();
        for (int64_t w = 0; w < f_.out[2]; ++w) {
          for (int64_t i = 0; i < f_.kernel[0]; ++i) {
            for (int64_t j = 0; j < f_.kernel[1]; ++j) {
              const uint8_t* from = image + (n * f_.padded[0] + d * f_.stride[0] + i * f_.dilation[0]) * slice +
                                    (h * f_.stride[1] + j * f_.dilation[1]) * line_step + w * f_.stride[2] * pixel + g * c;
              if (adjacent) {
                std::memcpy(row, from, static_cast<size_t>(f_.kernel[2] * c));
                row += f_.kernel[2] * c;
                continue;
              }
              for (int64_t k = 0; k < f_.kernel[2]; ++k, row += c)
                std::memcpy(row, from + k * f_.dilation[2] * pixel, static_cast<size_t>(c));
            }
          }
        }
      }
    });
  }

  Form f_;
  std::vector<PreparedProduct> products_;  // one a group
  int threads_;
  bool has_zero_;
  std::vector<const void*> inputs_;
  int64_t lines_, inner_ = 0;
  StridedCopy image_, result_;
};

const IntegerTaps& taps_table() {
  if (simd::widest() == simd::Isa::avx512) return avx512::integer_taps();
  return simd::best() == simd::Isa::avx2 ? avx2::integer_taps() : base::integer_taps();
}

/// How DirectIntegerConv goes through its work.
struct DirectPlan {
  static constexpr int64_t most_widened = 1 << 17;  // elements: they stay in the core's cache

  DirectPlan(const Form& f, int most_threads)
      : threads(useful_threads(most_threads, f.batch * f.outputs * f.plane() * f.depth() / 8)),
        pitch(divide_up(f.padded[2], f.stride[2])),
        chunks(std::clamp(std::max(4 * threads / (f.batch * f.group), divide_up(f.out[1], most_lines(f))), int64_t{1}, f.out[1])),
        lines(divide_up(f.out[1], chunks)),
        rows((lines - 1) * f.stride[1] + (f.kernel[1] - 1) * f.dilation[1] + 1),
        plane(divide_up(rows, f.stride[1]) * pitch),
        slice(plane * f.stride[1] * f.stride[2]),
        channel(f.padded[0] * slice),
        channels(std::clamp<int64_t>(most_widened / channel, 1, f.group_channels())) {
    const auto blocks = [](int64_t places) { return divide_up(places, integer_taps_block); };
    joins = lines > 1 && blocks(places(lines, f)) < lines * blocks(f.out[2]);
  }
  /// Lines whose pixels, and whose sums of all outputs, stay in the core's cache.
  int64_t most_lines(const Form& f) const {
    constexpr int64_t most_elements = 1 << 16;
    return std::max<int64_t>(1, most_elements / (pitch * std::max(f.group_outputs(), f.padded[0] * f.stride[1] * f.stride[2])));
  }
  int64_t places(int64_t some_lines, const Form& f) const { return (some_lines - 1) * pitch + f.out[2]; }
  /// Pairs of taps times blocks of places times results, of all.
  double work(const Form& f) const {
    const int64_t line_blocks = divide_up(f.out[2], integer_taps_block), joined = divide_up(places(lines, f), integer_taps_block);
    const int64_t blocks = chunks * (joins ? joined : lines * line_blocks);
    return static_cast<double>(f.batch * f.outputs * f.out[0] * blocks) * static_cast<double>(divide_up(f.depth(), 2));
  }

  int threads;
  int64_t pitch;                // elements of a line of a remainder of columns by the stride
  int64_t chunks, lines, rows;  // of the lines of a slice, in so many chunks of so many; the rows of the image that one reads
  int64_t plane;                // elements of what rows have of one remainder of rows and columns
  int64_t slice, channel;       // elements of all these planes, and of all slices of a channel
  int64_t channels;             // that are widened at a time
  bool joins = false;           // lines of the result are folded as one, what lies between them too
};

/// A few channels: the padded image of some channels as integers of 16 bits less the zero point, in as many planes as the strides say, so
/// that every tap of all places reads elements that lie side by side; then all taps of these channels, line by line or of all lines at once.
class DirectIntegerConv final : public Kernel {
 public:
  DirectIntegerConv(const BoundNode& b, const Form& f, int threads)
      : f_(f), plan_(f, threads), is_signed_(b.inputs[0].type == DType::i8), has_zero_(b.has(2)) {
    const int64_t taps = f.taps();
    for (int64_t k = 0; k < plan_.channels; ++k)
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t x = t % f.kernel[2] * f.dilation[2], y = t / f.kernel[2] % f.kernel[1] * f.dilation[1],
                      z = t / f.kernel[2] / f.kernel[1] * f.dilation[0];
        offsets_.push_back(k * plan_.channel + z * plan_.slice + (y % f.stride[1] * f.stride[2] + x % f.stride[2]) * plan_.plane +
                           y / f.stride[1] * plan_.pitch + x / f.stride[2]);
      }
    if (offsets_.size() % 2 == 1) offsets_.push_back(0);  // its weight is 0
    const std::vector<int32_t> w = quantized_integers(b.inputs[1].constant);
    const std::vector<int32_t> zeros = b.has(3) ? quantized_integers(b.inputs[3].constant) : std::vector<int32_t>{0};
    for (int64_t m = 0; m < f.outputs; ++m) {
      const int32_t zero = zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(m)];
      for (int64_t first = 0; first < f.depth(); first += plan_.channels * taps) {
        const int64_t end = std::min(first + plan_.channels * taps, f.depth());
        const auto weight = [&](int64_t i) { return i < end ? w[static_cast<size_t>(m * f.depth() + i)] - zero : 0; };
        for (int64_t i = first; i < end; i += 2)
          pairs_.push_back(
              static_cast<int32_t>(static_cast<uint32_t>(weight(i + 1)) << 16 | (static_cast<uint32_t>(weight(i)) & 0xffff)));
      }
    }
  }
  int64_t workspace() const override { return plan_.threads * (own_bytes() + joined_bytes()); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const uint8_t*>(b.inputs[0]);
    auto* y = static_cast<int32_t*>(b.outputs[0]);
    const uint8_t zero = has_zero_ ? *static_cast<const uint8_t*>(b.inputs[2]) : uint8_t{0};
    const int32_t widened = is_signed_ ? static_cast<int8_t>(zero) : zero;
    parallel(plan_.threads, f_.batch * f_.group * plan_.chunks, 1, [&](int64_t begin, int64_t end, int thread) {
      char* memory = static_cast<char*>(b.workspace) + thread * (own_bytes() + joined_bytes());
      auto* own = reinterpret_cast<int16_t*>(memory);
      auto* joined = reinterpret_cast<int32_t*>(memory + own_bytes());
      if (begin < end) std::memset(own, 0, static_cast<size_t>(own_bytes()));
      for (int64_t i = begin; i < end; ++i)
        run_chunk(x, y, own, joined, widened, i / plan_.chunks, i % plan_.chunks * plan_.lines);
    });
  }

 private:
  int64_t own_bytes() const { return aligned((plan_.channels * plan_.channel + 2 * integer_taps_block) * 2); }
  int64_t joined_bytes() const { return plan_.joins ? aligned(f_.group_outputs() * plan_.places(plan_.lines, f_) * 4) : 0; }

  /// The outputs of a group, lines `first_line` and some from there of each slice.
  void run_chunk(const uint8_t* x, int32_t* y, int16_t* own, int32_t* joined, int32_t zero, int64_t group,
                 int64_t first_line) const {
    const int64_t n = group / f_.group, g = group % f_.group, c = f_.group_channels(), outputs = f_.group_outputs();
    const int64_t lines = std::min(plan_.lines, f_.out[1] - first_line);
    if (lines <= 0) return;
    const IntegerTaps& taps = taps_table();
    const int64_t pairs_of_output = static_cast<int64_t>(pairs_.size()) / f_.outputs;
    int64_t pairs_before = 0;
    for (int64_t k = 0; k < c; k += plan_.channels) {
      const int64_t some = std::min(plan_.channels, c - k), count = (some * f_.taps() + 1) / 2;
      for (int64_t i = 0; i < some; ++i)
        widen(taps, x + n * f_.from[0] + (g * c + k + i) * f_.from[1], zero, first_line * f_.stride[1], own + i * plan_.channel);
      TapSums sums{.from = own,
                   .offsets = offsets_.data(),
                   .pairs = pairs_.data() + g * outputs * pairs_of_output + pairs_before,
                   .pairs_step = pairs_of_output,
                   .count = count,
                   .adds = k > 0,
                   .results = outputs,
                   .places = f_.out[2],
                   .to = nullptr,
                   .to_step = f_.plane()};
      for (int64_t d = 0; d < f_.out[0]; ++d) {
        int32_t* to = y + (((n * f_.outputs + g * outputs) * f_.out[0] + d) * f_.out[1] + first_line) * f_.out[2];
        sums.from = own + d * f_.stride[0] * plan_.slice;
        if (plan_.joins) {
          fold_joined(taps, sums, joined, lines, to);
          continue;
        }
        for (int64_t h = 0; h < lines; ++h, sums.from += plan_.pitch, to += f_.out[2]) {
          sums.to = to;
          taps.fold(sums);
        }
      }
      pairs_before += count;
    }
  }

  void fold_joined(const IntegerTaps& taps, TapSums sums, int32_t* joined, int64_t lines, int32_t* to) const {
    const int64_t width = f_.out[2], plane = f_.plane();
    const bool adds = sums.adds;
    sums.adds = false, sums.places = plan_.places(lines, f_);
    sums.to = joined, sums.to_step = sums.places;
    taps.fold(sums);
    for (int64_t m = 0; m < sums.results; ++m) {
      const int32_t* from = joined + m * sums.places;
      int32_t* lines_to = to + m * plane;
      if (!adds) {
        copy_lines(reinterpret_cast<char*>(lines_to), reinterpret_cast<const char*>(from), lines, width * 4, width * 4,
                   plan_.pitch * 4);
        continue;
      }
      for (int64_t h = 0; h < lines; ++h)
        for (int64_t i = 0; i < width; ++i)
          lines_to[h * width + i] = static_cast<int32_t>(static_cast<uint32_t>(lines_to[h * width + i]) +
                                                         static_cast<uint32_t>(from[h * plan_.pitch + i]));
    }
  }

  /// Rows `first` and those behind it of every slice of a channel's padded image; outside of the image they are zeros.
  void widen(const IntegerTaps& taps, const uint8_t* channel, int32_t zero, int64_t first, int16_t* to) const {
    const int64_t begin = std::max(first, f_.begin[1]), end = std::min(first + plan_.rows, f_.begin[1] + f_.in[1]);
    if (plan_.chunks > 1) std::fill_n(to, plan_.channel, int16_t{0});  // another chunk's rows lay where there are none now
    if (begin >= end) return;
    WidenedRows rows{.x = nullptr,
                     .is_signed = is_signed_,
                     .zero = zero,
                     .rows = end - begin,
                     .columns = f_.in[2],
                     .x_row = f_.from[3],
                     .x_column = f_.from[4],
                     .first_row = begin - first,
                     .first_column = f_.begin[2],
                     .stride_y = f_.stride[1],
                     .stride_x = f_.stride[2],
                     .plane = plan_.plane,
                     .pitch = plan_.pitch,
                     .to = nullptr};
    for (int64_t z = 0; z < f_.in[0]; ++z) {
      rows.x = channel + z * f_.from[2] + (begin - f_.begin[1]) * f_.from[3];
      rows.to = to + (z + f_.begin[0]) * plan_.slice;
      taps.widen(rows);
    }
  }

  Form f_;
  DirectPlan plan_;
  bool is_signed_, has_zero_;
  std::vector<int64_t> offsets_;  // of the taps of the channels that are widened at a time
  std::vector<int32_t> pairs_;    // weights by output, then by such channels
};

/// Of a core: a block of 32 places by a pair of taps, an element widened and a result.
double direct_us(const Form& f, int threads) {
  const DirectPlan plan(f, threads);
  const double block_ns = simd::widest() == simd::Isa::avx512 ? 0.8 : 1.6, widen_ns = f.stride[2] == 1 ? 0.2 : 1;
  const auto widened = static_cast<double>(f.batch * f.channels * f.padded[0] * f.padded[1] * f.padded[2]);
  const auto results = static_cast<double>(f.batch * f.outputs * f.plane());
  return 2 + 1e-3 * (plan.work(f) * block_ns + widened * widen_ns + results * 0.2) / plan.threads;
}

}  // namespace

void offer_conv_integer_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Result<Form> f = form_of(b);
  if (!f) {
    offer.refuse("cpu", f.refusal());
    return offer_integer_columns(b, machine, offer);
  }
  if (const auto why = rejects_sums(b.inputs[0].type, b.inputs[1].type, 1)) {  // sums wrap, as the operator's do
    offer.refuse("cpu", *why);
    return offer_integer_columns(b, machine, offer);
  }
  offer.candidates.push_back({"cpu", "direct", direct_us(*f, machine.threads), [b, f = *f, threads = machine.threads] {
                                return std::make_unique<DirectIntegerConv>(b, f, threads);
                              }});
  const bool small = f->group > 1 && f->group_outputs() < 16;
  if (small || f->group > 64) return;
  const int64_t rows = lines_at_a_time(*f) * f->out[2];
  auto groups = std::make_shared<std::vector<std::shared_ptr<GroupProduct>>>();
  for (int64_t g = 0; g < f->group; ++g) groups->push_back(product_of(b, *f, g, rows));
  std::vector<Offer> inner(groups->size());
  for (size_t g = 0; g < groups->size(); ++g)
    for (const OperatorTactics& tactics : matmul_family.operators)
      if (tactics.cpu && tactics.handles((*groups)[g]->node)) tactics.cpu((*groups)[g]->bound, machine, inner[g]);
  for (size_t c = 0; c < inner[0].candidates.size(); ++c) {
    const Candidate& first = inner[0].candidates[c];
    std::vector<std::function<std::unique_ptr<Kernel>()>> prepare;
    for (const Offer& o : inner) {
      const auto same = std::ranges::find_if(
          o.candidates, [&](const Candidate& k) { return k.tactic == first.tactic && k.config == first.config; });
      if (same != o.candidates.end()) prepare.push_back(same->prepare);
    }
    if (prepare.size() != inner.size()) continue;  // a group's weights are out of its range
    const double moved = static_cast<double>(f->batch * f->plane()) * static_cast<double>(f->depth() * f->group + f->outputs * 8);
    const double products = static_cast<double>(f->batch * f->plane() * f->group) / static_cast<double>(rows);
    constexpr double run_us = 1.5;  // of a product's estimate: what a step of its own costs
    const double product_us = std::max(first.estimate_us - run_us, first.estimate_us / 4);
    const double estimate = product_us * products + moved / 12e3 / machine.threads;
    offer.candidates.push_back(
        {first.tactic, first.config + " rows", 2 + estimate, [b, f = *f, groups, prepare, threads = machine.threads] {
           std::vector<PreparedProduct> kernels;
           for (size_t g = 0; g < prepare.size(); ++g) kernels.emplace_back(*(*groups)[g], prepare[g]());
           return std::make_unique<IntegerConv>(b, f, std::move(kernels), threads);
         }});
  }
  for (const RefusedTactic& r : inner[0].refused) offer.refuse(r.tactic, r.why);
}

}  // namespace smelt::ops::conv

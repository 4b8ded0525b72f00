// ConvInteger by rows: the image is copied channels last with its padding in place (the image's zero point, which may be computed), each
// place's taps become a row, and MatMulInteger's kernels multiply rows by the weights, some lines at a time. Groups are products of their
// own.
#include <algorithm>
#include <cstring>

#include "ops/conv/integer_form.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/matmul/family.h"

namespace smelt::ops::conv {
namespace {

constexpr int64_t most_unfolded = 1 << 20;  // bytes of rows at a time: they stay in the cores' caches

/// Lines of places made at a time: a divisor of an image's.
int64_t lines_at_a_time(const IntegerForm& f) {
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

std::shared_ptr<GroupProduct> product_of(const BoundNode& b, const IntegerForm& f, int64_t group, int64_t rows) {
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
  IntegerConv(const BoundNode& b, const IntegerForm& f, std::vector<PreparedProduct> products, int threads)
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
  static StridedCopy copy_of(const IntegerForm& f, int threads) {
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

  IntegerForm f_;
  std::vector<PreparedProduct> products_;  // one a group
  int threads_;
  bool has_zero_;
  std::vector<const void*> inputs_;
  int64_t lines_, inner_ = 0;
  StridedCopy image_, result_;
};

}  // namespace

void offer_integer_rows(const BoundNode& b, const IntegerForm& f, const Machine& machine, Offer& offer) {
  const bool small = f.group > 1 && f.group_outputs() < 16;
  if (small || f.group > 64) return;
  const int64_t rows = lines_at_a_time(f) * f.out[2];
  auto groups = std::make_shared<std::vector<std::shared_ptr<GroupProduct>>>();
  for (int64_t g = 0; g < f.group; ++g) groups->push_back(product_of(b, f, g, rows));
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
    const double moved = static_cast<double>(f.batch * f.plane()) * static_cast<double>(f.depth() * f.group + f.outputs * 8);
    const double products = static_cast<double>(f.batch * f.plane() * f.group) / static_cast<double>(rows);
    constexpr double run_us = 1.5;  // of a product's estimate: what a step of its own costs
    const double product_us = std::max(first.estimate_us - run_us, first.estimate_us / 4);
    // A row's pieces are copied one by one, however short they are.
    const bool adjacent = f.dilation[2] == 1 && f.group == 1;
    const int64_t pieces = f.is_pointwise() ? 0 : f.kernel[0] * f.kernel[1] * (adjacent ? 1 : f.kernel[2]);
    constexpr double piece_us = 4e-3;
    const double copied_us = static_cast<double>(f.batch * f.plane() * f.group * pieces) * piece_us;
    const double estimate = product_us * products + (moved / 12e3 + copied_us) / machine.threads;
    offer.candidates.push_back(
        {first.tactic, first.config + " rows", 2 + estimate, [b, f, groups, prepare, threads = machine.threads] {
           std::vector<PreparedProduct> kernels;
           for (size_t g = 0; g < prepare.size(); ++g) kernels.emplace_back(*(*groups)[g], prepare[g]());
           return std::make_unique<IntegerConv>(b, f, std::move(kernels), threads);
         }});
  }
  for (const RefusedTactic& r : inner[0].refused) offer.refuse(r.tactic, r.why);
}

}  // namespace smelt::ops::conv

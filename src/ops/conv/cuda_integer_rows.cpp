// ConvInteger by weights that a run computes, on a GPU: rows of all places' taps, multiplied as two computed matrices
// (ops/matmul/cuda_int8_computed.cpp).
//
//   image  x with its padding, which is its zero point, in place             where it has any
//   rows   [N, G, places, C / G, taps…]: what each window covers             but of windows of one pixel, side by side
//   y      [N, G, M / G, places] = w [G, M / G, C / G · taps] · rowsᵀ        or rows · wᵀ where each channel has a zero point
#include <algorithm>

#include "ops/conv/integer_form.h"
#include "ops/conv/offer.h"
#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cuda/gpu.h"
#include "ops/matmul/family.h"
#include "ops/movement/cuda_axes.h"
#include "ops/movement/cuda_strided_copy.h"

namespace smelt::ops::conv {
namespace {

struct RowsProduct {
  Node node;
  BoundNode bound;
  Offer pad, move, product;              // pad, move: no candidates where the image is read where it lies
  int64_t padded = 0, rows = 0;          // bytes
  size_t weights = 0;                    // of `bound`: 0 or 1, the rows are the other
  std::optional<size_t> x_zero, w_zero;  // inputs of the node
};

bool pads(const IntegerForm& f) { return !std::ranges::equal(f.padded, f.in); }

/// The image as rows are made of it: strides along N, C and three axes.
Result<Shape> padded_image(const BoundNode& b, const IntegerForm& f, const Gpu& gpu, RowsProduct& r) {
  if (!pads(f)) return f.from;
  const BoundTensor& x = b.inputs[0];
  BoundTensor image{.type = x.type, .shape = {f.batch, f.channels, f.padded[0], f.padded[1], f.padded[2]}};
  BoundTensor from{.type = x.type, .shape = {f.batch, f.channels, f.in[0], f.in[1], f.in[2]}};
  from.strides = f.from, from.alignment = x.alignment;
  std::vector<MappedAxis> axes = axes_of(from, image);
  for (size_t k = 0; k < 3; ++k) {
    if (f.padded[k] == f.in[k]) continue;
    for (int64_t i = -f.begin[k]; i < f.padded[k] - f.begin[k]; ++i)
      axes[k + 2].places.push_back(i < f.in[k] ? std::max<int64_t>(i, -1) : -1);
  }
  BoundNode moved{nullptr, {from}, {image}, nullptr};
  AxesFill fill;
  if (b.has(2)) moved.inputs.push_back(b.inputs[2]), fill.input = 1;
  offer_by_axes(std::move(axes), moved, std::move(fill), "pad", gpu, r.pad);
  if (r.pad.candidates.empty()) return r.pad.refused.front().why;
  r.padded = storage_bytes(image);
  return memory_strides(image);
}

/// The rows as a matrix [N, G, C / G · taps, places].
Result<BoundTensor> rows_of(const BoundNode& b, const IntegerForm& f, const Shape& image, const Gpu& gpu, RowsProduct& r) {
  const BoundTensor& x = b.inputs[0];
  const int64_t depth = f.depth(), places = f.plane(), channels = f.group_channels();
  BoundTensor rows{.type = x.type, .shape = {f.batch, f.group, depth, places}};
  const bool lies_so = f.taps() == 1 && f.stride[0] * f.stride[1] * f.stride[2] == 1 && image[4] == 1 &&
                       (f.out[1] == 1 || image[3] == f.out[2]) && (f.out[0] == 1 || image[2] == f.out[1] * f.out[2]);
  if (lies_so) {
    rows.strides = {image[0], channels * image[1], image[1], 1};
    if (!pads(f)) rows.alignment = x.alignment;
    return rows;
  }
  StridedMove move{{f.batch, f.group}, {image[0], channels * image[1]}, {f.group * places * depth, places * depth}};
  const auto axis = [&](int64_t extent, int64_t from, int64_t to) {
    move.extents.push_back(extent), move.from.push_back(from), move.to.push_back(to);
  };
  int64_t to = places * depth;
  for (size_t k = 0; k < 3; ++k) axis(f.out[k], image[k + 2] * f.stride[k], to /= f.out[k]);
  axis(channels, image[1], to /= channels);
  for (size_t k = 0; k < 3; ++k) axis(f.kernel[k], image[k + 2] * f.dilation[k], to /= f.kernel[k]);
  const BoundTensor from{.type = x.type, .shape = x.shape, .alignment = pads(f) ? BoundTensor{}.alignment : x.alignment};
  const BoundTensor dense{.type = x.type, .shape = {f.batch, f.group, places, depth}};
  offer_moves_cuda({nullptr, {from}, {dense}, nullptr}, {std::move(move)}, gpu, r.move);
  if (r.move.candidates.empty()) return r.move.refused.front().why;
  r.rows = storage_bytes(dense);
  rows.strides = {f.group * places * depth, places * depth, 1, depth};
  return rows;
}

Result<std::shared_ptr<RowsProduct>> product_of(const BoundNode& b, const Gpu& gpu) {
  const Result<IntegerForm> form = integer_form(b);
  if (!form) return form.refusal();
  const IntegerForm& f = *form;
  auto r = std::make_shared<RowsProduct>();
  const Result<Shape> image = padded_image(b, f, gpu, *r);
  if (!image) return image.refusal();
  Result<BoundTensor> rows = rows_of(b, f, *image, gpu, *r);
  if (!rows) return rows.refusal();
  const int64_t depth = f.depth(), m = f.group_outputs(), places = f.plane();
  BoundTensor w{.type = b.inputs[1].type, .shape = {f.group, m, depth}, .alignment = b.inputs[1].alignment};
  BoundTensor y{.type = DType::i32, .shape = {f.batch, f.group, m, places}, .alignment = b.outputs[0].alignment};
  const bool by_channel = b.has(3) && elements(b.inputs[3].shape) != 1;
  if (by_channel && (!b.inputs[3].constant.valid() || f.group != 1))
    return refuse(Reason::wrong_shape, "{} zero points of the weights, {}", elements(b.inputs[3].shape),
                  f.group != 1 ? "in groups" : "which the run computes");
  if (by_channel) {
    const auto turn = [](BoundTensor& t) {
      if (t.strides.empty()) t.strides = memory_strides(t);
      std::swap(t.shape[t.shape.size() - 2], t.shape.back());
      std::swap(t.strides[t.strides.size() - 2], t.strides.back());
    };
    turn(*rows), turn(w), turn(y);
  }
  r->weights = by_channel ? 1 : 0;
  if (b.has(2)) r->x_zero = 2;
  if (b.has(3)) r->w_zero = 3;
  r->node.op = "MatMulInteger";
  r->bound.node = &r->node;
  r->bound.inputs = {w, *rows, b.has(3) ? b.inputs[3] : BoundTensor{}, b.has(2) ? b.inputs[2] : BoundTensor{}};
  if (by_channel) std::swap(r->bound.inputs[0], r->bound.inputs[1]), std::swap(r->bound.inputs[2], r->bound.inputs[3]);
  r->bound.outputs = {y};
  return r;
}

class IntegerRows final : public Kernel {
 public:
  IntegerRows(const RowsProduct& r, size_t way)
      : x_zero_(r.x_zero),
        w_zero_(r.w_zero),
        weights_(r.weights),
        padded_(device_aligned(r.padded)),
        rows_(device_aligned(r.rows)),
        product_(r.product.candidates[way].prepare()) {
    if (!r.pad.candidates.empty()) pad_ = r.pad.candidates.front().prepare();
    if (!r.move.candidates.empty()) move_ = r.move.candidates.front().prepare();
  }

  int64_t workspace() const override {
    int64_t most = product_->workspace();
    for (const auto& copy : {pad_.get(), move_.get()})
      if (copy) most = std::max(most, copy->workspace());
    return padded_ + rows_ + most;
  }
  bool reads(size_t i) const override { return i < 2 || i == x_zero_ || i == w_zero_; }
  bool in_place(size_t) const override { return false; }

  void run(const Buffers& b) override {
    char* const memory = static_cast<char*>(b.workspace);
    char* const behind = memory + padded_ + rows_;
    const void* const x_zero = x_zero_ ? b.inputs[*x_zero_] : nullptr;
    const void* const w_zero = w_zero_ ? b.inputs[*w_zero_] : nullptr;
    const void* image = b.inputs[0];
    const auto copied = [&](Kernel& copy, char* to) {
      const void* const from[] = {image, x_zero};
      void* const made[] = {to};
      copy.run({from, made, behind, b.stream});
      image = to;
    };
    if (pad_) copied(*pad_, memory);
    if (move_) copied(*move_, memory + padded_);
    const void* given[] = {b.inputs[1], image, w_zero, x_zero};
    if (weights_ == 1) std::swap(given[0], given[1]), std::swap(given[2], given[3]);
    product_->run({given, b.outputs, behind, b.stream});
  }

 private:
  std::optional<size_t> x_zero_, w_zero_;
  size_t weights_;
  int64_t padded_, rows_;
  std::unique_ptr<Kernel> pad_, move_, product_;
};

}  // namespace

void offer_integer_rows_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const auto made = product_of(b, *machine.gpu);
  if (!made) return offer.refuse("cuda", made.refusal());
  const std::shared_ptr<RowsProduct>& r = *made;
  for (const OperatorTactics& t : matmul_family.operators)
    if (t.cuda && t.handles(r->node)) t.cuda(r->bound, machine, r->product);
  for (const RefusedTactic& no : r->product.refused) offer.refuse(no.tactic, no.why);
  double copies_us = 0;
  Key key("conv:rows");
  for (const Offer* copy : {&r->pad, &r->move}) {
    key.flag(copy == &r->pad ? " padded" : " moved", !copy->candidates.empty());
    if (!copy->candidates.empty()) copies_us += copy->candidates.front().estimate_us;
  }
  offer.problem = key.option(" ", b.inputs[0]).field(r->product.problem).text();
  for (size_t way = 0; way < r->product.candidates.size(); ++way) {
    const Candidate& c = r->product.candidates[way];
    offer.candidates.push_back({c.tactic, c.config + " rows", c.estimate_us + copies_us,
                                [r, way] { return std::make_unique<IntegerRows>(*r, way); }, c.lengthy});
  }
}

}  // namespace smelt::ops::conv

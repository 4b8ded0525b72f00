// Einsum on the processor. Two operands whose loops are a product's are one, [batch, M, K] · [batch, K, N], by MatMul's kernels:
// operands are copied into that order where they do not lie so, diagonals among them. One operand is a strided copy where nothing
// is summed. Anything else, three operands among it, is a chain of steps (ops/einsum/steps.h).
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/einsum/einsum.h"
#include "ops/einsum/offer.h"
#include "ops/einsum/steps.h"
#include "ops/matmul/family.h"

namespace smelt::ops {
namespace {

Loops loops_of(const Contraction& c) {
  Loops l;
  l.extents = c.outer;
  l.outer = c.outer.size();
  l.extents.insert(l.extents.end(), c.summed.begin(), c.summed.end());
  for (size_t k = 0; k < c.outer_strides.size(); ++k) {
    LoopOperand o{c.outer_strides[k]};
    o.steps.insert(o.steps.end(), c.summed_strides[k].begin(), c.summed_strides[k].end());
    for (size_t a = 0; a < o.steps.size(); ++a)
      if (l.extents[a] == 1) o.steps[a] = 0;
    l.operands.push_back(std::move(o));
  }
  return l;
}

/// The product: y[batch, m, n] = Σ a[batch, m, k] · b[batch, k, n], each a list of loops.
struct Product {
  std::vector<size_t> batch, m, n, k;
  static int64_t extent(const Loops& l, const std::vector<size_t>& loops) {
    int64_t e = 1;
    for (size_t a : loops) e *= l.extents[a];
    return e;
  }
};

/// A copy of an operand in the order of `loops`; none where it lies so already.
std::optional<StridedCopy> copy_of(const Loops& l, const LoopOperand& o, const std::vector<size_t>& loops, int64_t bytes,
                                   int threads) {
  Shape extents, from;
  for (size_t a : loops) extents.push_back(l.extents[a]), from.push_back(o.steps[a]);
  const Shape to = strides(extents);
  bool same = true;
  for (size_t i = 0; i < to.size(); ++i) same = same && (extents[i] == 1 || from[i] == to[i]);
  if (same) return std::nullopt;
  return StridedCopy(extents, from, to, bytes, threads);
}

struct MatMulNode {
  Node node;
  BoundNode bound;
};

class EinsumKernel final : public Kernel {
 public:
  EinsumKernel(const Loops& l, const Product& p, DType type, std::unique_ptr<Kernel> product, int threads)
      : product_(std::move(product)), bytes_(element_bytes(type)) {
    const auto joined = [](std::initializer_list<const std::vector<size_t>*> lists) {
      std::vector<size_t> all;
      for (const auto* list : lists) all.insert(all.end(), list->begin(), list->end());
      return all;
    };
    const std::vector<size_t> orders[] = {joined({&p.batch, &p.m, &p.k}), joined({&p.batch, &p.k, &p.n})};
    for (size_t i = 0; i < 2; ++i) {
      copies_[i] = copy_of(l, l.operands[i], orders[i], bytes_, threads);
      sizes_[i] = copies_[i] ? aligned(Product::extent(l, orders[i]) * bytes_) : 0;
    }
    // The result's order is the output's.
    const std::vector<size_t> made = joined({&p.batch, &p.m, &p.n});
    Shape extents, to;
    const Shape dense = strides(Shape(l.extents.begin(), l.extents.begin() + static_cast<std::ptrdiff_t>(l.outer)));
    for (size_t a : made) extents.push_back(l.extents[a]), to.push_back(dense[a]);
    const Shape from = strides(extents);
    bool same = true;
    for (size_t i = 0; i < to.size(); ++i) same = same && (extents[i] == 1 || from[i] == to[i]);
    if (!same) {
      copies_[2] = StridedCopy(extents, from, to, bytes_, threads);
      sizes_[2] = aligned(elements(extents) * bytes_);
    }
  }
  int64_t workspace() const override { return sizes_[0] + sizes_[1] + sizes_[2] + product_->workspace(); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const void* in[2];
    for (size_t i = 0; i < 2; ++i) {
      in[i] = b.inputs[i];
      const std::optional<StridedCopy>& copy = copies_[i];
      if (!copy) continue;
      copy->run(memory, b.inputs[i]);
      in[i] = memory;
      memory += sizes_[i];
    }
    const std::optional<StridedCopy>& result = copies_[2];
    void* out = result ? memory : b.outputs[0];
    memory += sizes_[2];
    product_->run({in, std::span(&out, 1), memory});
    if (result) result->run(b.outputs[0], out);
  }

 private:
  std::unique_ptr<Kernel> product_;
  int64_t bytes_;
  std::optional<StridedCopy> copies_[3];  // of both operands; of the result
  int64_t sizes_[3] = {};
};

/// One operand whose loops are all the output's: its elements in another order, a diagonal too.
class ReorderKernel final : public Kernel {
 public:
  ReorderKernel(const Loops& l, int64_t bytes, int threads)
      : copy_(l.extents, l.operands[0].steps, strides(l.extents), bytes, threads) {}
  void run(const Buffers& b) override { copy_.run(b.outputs[0], b.inputs[0]); }

 private:
  StridedCopy copy_;
};

/// The loops of a product; nothing where one operand alone is summed over a loop.
std::optional<Product> product_of(const Loops& l) {
  if (l.operands.size() != 2) return std::nullopt;
  Product p;
  for (size_t a = 0; a < l.extents.size(); ++a) {
    if (l.extents[a] == 1) continue;
    const bool left = l.operands[0].has(a), right = l.operands[1].has(a);
    if (a >= l.outer) {
      if (!left || !right) return std::nullopt;
      p.k.push_back(a);
    } else {
      if (!left && !right) return std::nullopt;
      (left && right ? p.batch : left ? p.m : p.n).push_back(a);
    }
  }
  // Both sides are walked in the left operand's order, so that it needs no copy where there is a choice.
  std::ranges::stable_sort(p.k, std::greater{}, [&](size_t a) { return l.operands[0].steps[a]; });
  return p;
}

/// The product's candidates, where the loops are one's. `copies_us`: what its copies may take.
void offer_product(const Loops& l, DType type, const Machine& machine, double copies_us, Offer& offer) {
  const auto p = product_of(l);
  if (!p) return;
  auto inner = std::make_shared<MatMulNode>();
  inner->node.op = "MatMul";
  const int64_t batch = Product::extent(l, p->batch), m = Product::extent(l, p->m), n = Product::extent(l, p->n),
                k = Product::extent(l, p->k);
  const auto shape = [&](int64_t rows, int64_t columns) {
    return batch == 1 ? Shape{rows, columns} : Shape{batch, rows, columns};
  };
  inner->bound.node = &inner->node;
  inner->bound.inputs = {{type, shape(m, k)}, {type, shape(k, n)}};
  inner->bound.outputs = {{type, shape(m, n)}};
  Offer product;
  product.wanted.at_once = offer.wanted.at_once;
  for (const OperatorTactics& tactics : matmul_family.operators)
    if (product.candidates.empty() && tactics.cpu && tactics.handles(inner->node)) tactics.cpu(inner->bound, machine, product);
  for (const Candidate& c : product.candidates) {
    offer.candidates.push_back(
        {c.tactic, c.config, c.estimate_us + copies_us, [l, p = *p, type, inner, prepare = c.prepare, threads = machine.threads] {
           return std::make_unique<EinsumKernel>(l, p, type, prepare(), threads);
         }});
  }
}

/// Steps of one or two operands, each by the product that is estimated to be the fastest where it sums one, else row by row.
void offer_steps(const Loops& l, DType type, const Machine& machine, Offer& offer) {
  const std::vector<ContractionStep> steps = contraction_steps(l);
  std::vector<std::function<std::unique_ptr<Kernel>()>> makes;
  double estimate = 0;
  for (const ContractionStep& s : steps) {
    const int threads = machine.threads;
    double us = contraction_rows_us(s.loops, threads);
    std::function<std::unique_ptr<Kernel>()> make = [s, type, threads] { return contraction_rows(s.loops, type, threads); };
    if (const auto p = product_of(s.loops); p && Product::extent(s.loops, p->k) > 1) {
      Offer product;
      product.wanted.at_once = offer.wanted.at_once;
      offer_product(s.loops, type, machine, 0, product);
      for (const Candidate& c : product.candidates)
        if (c.estimate_us < us) us = c.estimate_us, make = c.prepare;
    }
    makes.push_back(std::move(make));
    estimate += us;
  }
  offer.candidates.push_back({"cpu", "steps", estimate, [steps, makes, type, operands = l.operands.size()] {
                                std::vector<std::unique_ptr<Kernel>> kernels;
                                for (const auto& make : makes) kernels.push_back(make());
                                return contraction_chain(steps, std::move(kernels), operands, type);
                              }});
}

}  // namespace

void offer_einsum_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.outputs[0].type;
  const bool is_integers = is_integer(type) && bits(type) >= 32;
  if (type != DType::f32 && type != DType::f64 && type != DType::f16 && type != DType::bf16 && !is_integers)
    return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.outputs[0].shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty result");
  std::vector<Shape> shapes;
  for (const BoundTensor& t : b.inputs) {
    if (elements(t.shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty operand");
    shapes.push_back(t.shape);
  }
  const Loops l = loops_of(einsum_contraction(*b.node, shapes));
  const int threads = machine.threads;
  if (l.extents.size() > 8) return offer.refuse("cpu", Reason::too_large, "{} loops; it knows 8", l.extents.size());
  const int64_t size = element_bytes(type);
  if (l.operands.size() == 1 && l.outer == l.extents.size()) {
    offer.candidates.push_back({"cpu", "", copy_estimate_us(b, machine),
                                [l, size, threads] { return std::make_unique<ReorderKernel>(l, size, threads); }});
    return;
  }
  offer_product(l, type, machine, copy_estimate_us(b, machine), offer);
  if (!offer.candidates.empty()) return;
  if (type != DType::f32 && type != DType::f64 && !is_integers)
    return offer.refuse("cpu", Reason::wrong_type, "a sum of {} over loops that are no product", name(type));
  offer_steps(l, type, machine, offer);
}

}  // namespace smelt::ops

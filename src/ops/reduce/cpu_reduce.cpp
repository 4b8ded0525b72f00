// ai.smelt.Reduce, ONNX's reductions and pooling over whole planes: the program evaluated block by block and folded as it comes,
// then `post` over what remains. Axes are merged; where the innermost one is reduced, rows are folded to a number each, otherwise
// whole lines of results gather element by element, and so they do where rows are short.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/value_of.h"
#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/pointwise/fused.h"
#include "ops/reduce/offer.h"
#include "ops/reduce/reduction.h"

namespace smelt::ops {
namespace {

constexpr int64_t column_chunk = 512;
/// Rows up to here are no rows: a call for each costs more than reading elements that lie apart.
constexpr int64_t short_row = 32;
/// What a node reduces: ONNX's operators in the fused one's terms.
struct Problem {
  expr::Program before;
  std::optional<expr::Program> post;
  ReduceKind kind = ReduceKind::sum;
  std::vector<int64_t> axes;  // normalised
  size_t inputs_before = 1;   // inputs from here on are post's
  size_t inputs = 1;          // of both programs together
  bool none = false;          // no axis is reduced; otherwise no axes are all
};

struct OnnxReduction {
  std::string_view op;
  ReduceKind kind;
  bool real = false;                  // integers are computed in f64
  expr::Fn first = expr::Fn::input;   // of each element, where it is another one
  expr::Fn finish = expr::Fn::input;  // of the result, likewise
};
constexpr OnnxReduction onnx_reductions[] = {
    {"ReduceSum", ReduceKind::sum},
    {"ReduceMean", ReduceKind::mean},
    {"ReduceMax", ReduceKind::max},
    {"ReduceMin", ReduceKind::min},
    {"ReduceProd", ReduceKind::prod},
    {"ReduceSumSquare", ReduceKind::sum_square},
    {"ReduceL1", ReduceKind::sum, false, expr::Fn::abs},
    {"ReduceL2", ReduceKind::l2, true},
    {"ReduceLogSum", ReduceKind::sum, true, expr::Fn::input, expr::Fn::log},
    {"GlobalAveragePool", ReduceKind::mean},
    {"GlobalMaxPool", ReduceKind::max},
};

const OnnxReduction* onnx_reduction(const Node& n) {
  const auto at = std::ranges::find(onnx_reductions, std::string_view(n.op), &OnnxReduction::op);
  return n.domain.empty() && at != std::end(onnx_reductions) ? &*at : nullptr;
}

bool is_log_sum_exp(const Node& n) { return n.is("ReduceLogSumExp"); }

Fold fold_of(ReduceKind k) {
  switch (k) {
    case ReduceKind::sum:
    case ReduceKind::mean: return Fold::sum;
    case ReduceKind::max: return Fold::max;
    case ReduceKind::min: return Fold::min;
    case ReduceKind::prod: return Fold::product;
    default: return Fold::squares;
  }
}

/// What values of a type are folded in; undefined for what has no kernel.
DType folded(DType t, bool real) {
  if (t == DType::f16 || t == DType::bf16) return DType::f32;
  if (t == DType::f32 || t == DType::f64) return t;
  if (t != DType::boolean && !expr::is_computing(t)) return DType::undefined;
  return real ? DType::f64 : t == DType::i32 ? t : DType::i64;
}

/// 64 bits without a sign in the order of those with one, and back.
expr::Ref with_other_sign(expr::Program& p, expr::Ref r) {
  const expr::Ref one = p.constant(DType::u64, 1), places = p.constant(DType::u64, 63);  // 2^63 itself is no constant
  const expr::Ref highest = p.call(expr::Fn::shift_left, one, places);
  return p.cast(p.call(expr::Fn::bit_xor, p.cast(r, DType::u64), highest), DType::i64);
}

/// The axes of a reduction or of a pooling over whole planes: nothing for none of them, refused where they are computed.
Result<std::optional<std::vector<int64_t>>> listed_axes(const BoundNode& b) {
  const Node& n = *b.node;
  std::vector<int64_t> axes = n.get_ints("axes");
  if (n.op.starts_with("Global")) {
    for (size_t a = 2; a < b.inputs[0].shape.size(); ++a) axes.push_back(static_cast<int64_t>(a));
    if (axes.empty()) return std::optional<std::vector<int64_t>>();
  } else if (b.has(1)) {
    if (!b.inputs[1].constant.valid()) return refuse(Reason::not_constant, "its axes are computed");
    axes = b.inputs[1].constant.to_ints();
  }
  if (axes.empty() && n.get_int("noop_with_empty_axes", 0)) return std::optional<std::vector<int64_t>>();
  return std::optional(std::move(axes));
}

std::optional<Refusal> rejects_layouts_of(const BoundNode& b) {
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.layout != Layout::plain) return refuse(Reason::wrong_layout, "a tensor is not plain");
  return std::nullopt;
}

/// Refused where this kernel cannot run the node.
Result<Problem> problem_of(const BoundNode& b) {
  const Node& n = *b.node;
  Problem p;
  if (n.domain == smelt_domain) {
    const Reduction r(n);
    p.before = required_program(n), p.post = r.post, p.kind = r.kind, p.axes = r.axes, p.inputs_before = r.inputs_before,
    p.inputs = b.inputs.size();
  } else {
    const OnnxReduction& r = *onnx_reduction(n);
    p.kind = r.kind;
    auto axes = listed_axes(b);
    if (!axes) return axes.refusal();
    const auto& listed = *axes;
    p.none = !listed;
    if (listed) p.axes = *listed;
    const DType from = b.inputs[0].type, type = folded(from, r.real);
    if (type == DType::undefined) return refuse(Reason::wrong_type, "its type is {}", name(from));
    const bool extreme = p.kind == ReduceKind::max || p.kind == ReduceKind::min;
    if (extreme && type != from && !is_float(from) && elements(b.inputs[0].shape) == 0)
      return refuse(Reason::wrong_shape, "the extreme of no elements, which is the type's own");
    const bool ordered = from == DType::u64 && extreme;
    if (from == DType::u64 && p.kind == ReduceKind::mean) return refuse(Reason::wrong_type, "the mean of u64");
    expr::Ref v = p.before.cast(p.before.input(from), type);
    if (r.first != expr::Fn::input && from != DType::u64) v = p.before.call(r.first, v);
    p.before.output(ordered ? with_other_sign(p.before, v) : v);
    if (type != from || r.finish != expr::Fn::input) {
      expr::Program& post = p.post.emplace();
      expr::Ref w = post.input(type);
      if (r.finish != expr::Fn::input) w = post.call(r.finish, w);
      post.output(post.cast(ordered ? with_other_sign(post, w) : w, from));
    }
  }
  const DType type = p.before.type(p.before.outputs()[0]);
  if (type != DType::f32 && type != DType::f64 && type != DType::i32 && type != DType::i64)
    return refuse(Reason::wrong_type, "values of {} are reduced; expected f32, f64, i32 or i64", name(type));
  if (is_integer(type) && (p.kind == ReduceKind::l2 || (p.kind == ReduceKind::mean && n.domain == smelt_domain)))
    return refuse(Reason::wrong_type, "the mean or norm of integers");
  if (auto why = rejects_layouts_of(b)) return *why;
  return p;
}

template <class T> T identity(Fold f) {
  constexpr bool infinite = std::numeric_limits<T>::has_infinity;
  switch (f) {
    case Fold::max: return infinite ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    case Fold::min: return infinite ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    case Fold::product: return T(1);
    default: return T(0);
  }
}

/// Integers wrap.
template <class T> T fold(Fold f, T a, T b) {
  using U = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  switch (f) {
    case Fold::sum: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case Fold::squares: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b) * static_cast<U>(b));
    case Fold::product: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Fold::max: return b > a || b != b ? b : a;
    case Fold::min: return b < a || b != b ? b : a;
  }
  return a;
}

template <class T> T fold_row(Fold f, const T* v, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    return row_simd().fold(f, v, n);
  } else {
    T r = identity<T>(f);
    for (int64_t i = 0; i < n; ++i) r = fold(f, r, v[i]);
    return r;
  }
}
template <class T> void fold_lines(Fold f, T* to, const T* v, int64_t n) {
  if constexpr (std::is_same_v<T, float>)
    row_simd().fold_lines(f, to, v, n);
  else
    for (int64_t i = 0; i < n; ++i) to[i] = fold(f, to[i], v[i]);
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const BoundNode& b, const Problem& p, int threads)
      : p_(p), type_(p.before.type(p.before.outputs()[0])), threads_(threads) {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < p_.inputs_before; ++i) shapes.push_back(b.inputs[i].shape);
    const Shape shape = broadcast_all(shapes);
    std::vector<int64_t> axes = p_.axes;
    for (int64_t a = 0; p_.axes.empty() && !p_.none && a < static_cast<int64_t>(shape.size()); ++a) axes.push_back(a);
    axes = normalize_axes(axes, static_cast<int64_t>(shape.size()));
    for (size_t i = 0; i < p_.inputs_before; ++i) {
      strides_.emplace_back();
      bytes_.push_back(std::max(bits(b.inputs[i].type) / 8, 1));
    }
    merge(b, shape, axes);
    evaluator_.emplace(p_.before, simd::best(), inner_reduced_ ? extents_.back() : std::min(extents_.back(), column_chunk));
    element_ = bits(type_) / 8;
    chunks_ = inner_reduced_ ? 1 : (extents_.back() + column_chunk - 1) / column_chunk;
    threads_ = useful_threads(threads, count_ * kept_ * (1 + evaluator().loops()));
    tables_ = aligned(static_cast<int64_t>(sizeof(expr::Operand) * p_.inputs_before));
    thread_bytes_ =
        tables_ + 2 * aligned(std::max(evaluator().block(), column_chunk) * element_) + aligned(evaluator().scratch());
    if (p_.post) {
      const bool keepdims = b.node->get_int("keepdims", 1) != 0;
      const BoundTensor reduced{type_, reduced_shape(shape, axes, keepdims)};
      const BoundTensor& y = b.outputs[0];
      std::vector<Shape> views = {broadcast_strides(reduced, y.shape.size())};
      for (size_t i = p_.inputs_before; i < p_.inputs; ++i) views.push_back(broadcast_strides(b.inputs[i], y.shape.size()));
      views.push_back(memory_strides(y));
      post_.emplace(*p_.post, y.shape, views, threads);
    }
  }

  int64_t workspace() const override {
    return aligned(kept_ * element_) + std::max(threads_ * thread_bytes_, post_ ? post_->workspace() : 0);
  }

  void run(const Buffers& b) override {
    char* scratch = static_cast<char*>(b.workspace);
    void* reduced = post_ ? scratch : b.outputs[0];
    scratch += aligned(kept_ * element_);
    switch (type_) {
      case DType::f32: reduce<float>(b, reduced, scratch); break;
      case DType::f64: reduce<double>(b, reduced, scratch); break;
      case DType::i32: reduce<int32_t>(b, reduced, scratch); break;
      default: reduce<int64_t>(b, reduced, scratch);
    }
    if (!post_) return;
    post_inputs_.assign(1, reduced);
    for (size_t i = p_.inputs_before; i < p_.inputs; ++i) post_inputs_.push_back(b.inputs[i]);
    post_->run(post_inputs_, b.outputs, scratch);
  }

 private:
  const expr::Evaluator& evaluator() const { return value_of(evaluator_, "the evaluator of a reduction"); }

  /// Neighbouring axes become one where both are reduced or neither is, and every operand allows it.
  void merge(const BoundNode& b, const Shape& shape, const std::vector<int64_t>& axes) {
    for (size_t a = 0; a < shape.size(); ++a) {
      const bool reduced = std::ranges::find(axes, static_cast<int64_t>(a)) != axes.end();
      (reduced ? count_ : kept_) *= shape[a];
      if (shape[a] == 1) continue;
      bool merges = !extents_.empty() && reduced_.back() == reduced;
      std::vector<int64_t> step(strides_.size());
      for (size_t k = 0; k < strides_.size(); ++k) {
        step[k] = broadcast_strides(b.inputs[k], shape.size())[a];
        merges = merges && strides_[k].back() == step[k] * shape[a];
      }
      if (merges)
        extents_.back() *= shape[a];
      else
        extents_.push_back(shape[a]), reduced_.push_back(reduced);
      for (size_t k = 0; k < strides_.size(); ++k) {
        if (merges)
          strides_[k].back() = step[k];
        else
          strides_[k].push_back(step[k]);
      }
    }
    if (extents_.empty()) {
      extents_.push_back(1), reduced_.push_back(true);
      for (Shape& s : strides_) s.push_back(0);
    }
    gather_short_rows();
    inner_reduced_ = reduced_.back();
    outer_kept_ = kept_ / (inner_reduced_ ? 1 : std::max<int64_t>(extents_.back(), 1));
    outer_reduced_ = count_ / (inner_reduced_ ? std::max<int64_t>(extents_.back(), 1) : 1);
  }

  /// The last axis that is kept goes to the end where what is reduced behind it is short: real and imaginary parts, channels of images.
  void gather_short_rows() {
    const auto kept = std::ranges::find(reduced_.rbegin(), reduced_.rend(), false);
    const auto behind = static_cast<size_t>(kept - reduced_.rbegin());
    if (kept == reduced_.rend() || behind == 0) return;
    int64_t row = 1;
    for (size_t a = extents_.size() - behind; a < extents_.size(); ++a) row *= extents_[a];
    if (row > short_row || row > extents_[extents_.size() - behind - 1]) return;
    const auto move = [&](auto& list) {
      std::rotate(list.end() - 1 - static_cast<int64_t>(behind), list.end() - static_cast<int64_t>(behind), list.end());
    };
    move(extents_), move(reduced_);
    for (Shape& s : strides_) move(s);
  }

  /// Operands at kept index `kept` and reduced index `reduced` of the outer axes, `from` elements into the innermost one.
  void locate(const Buffers& b, int64_t kept, int64_t reduced, int64_t from, expr::Operand* operands) const {
    for (size_t k = 0; k < strides_.size(); ++k) operands[k] = {b.inputs[k], strides_[k].back()};
    auto move = [&](size_t k, int64_t elements) {
      operands[k].data = static_cast<const char*>(operands[k].data) + elements * bytes_[k];
    };
    for (size_t k = 0; k < strides_.size(); ++k) move(k, from * strides_[k].back());
    for (size_t a = extents_.size() - 1; a-- > 0;) {
      int64_t& index = reduced_[a] ? reduced : kept;
      for (size_t k = 0; k < strides_.size(); ++k) move(k, index % extents_[a] * strides_[k][a]);
      index /= extents_[a];
    }
  }

  template <class T> T finished(T v) const {
    if (p_.kind == ReduceKind::mean && std::is_integral_v<T>) return count_ == 0 ? T(0) : static_cast<T>(v / count_);
    if (p_.kind == ReduceKind::mean) return static_cast<T>(v / static_cast<T>(count_));
    return p_.kind == ReduceKind::l2 ? static_cast<T>(std::sqrt(static_cast<double>(v))) : v;
  }

  template <class T> void reduce(const Buffers& b, void* reduced, char* scratch) const {
    const Fold f = fold_of(p_.kind);
    T* results = static_cast<T*>(reduced);
    if (count_ == 0) {
      std::fill_n(results, kept_, finished(identity<T>(f)));
      return;
    }
    parallel(threads_, outer_kept_ * chunks_, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = scratch + thread * thread_bytes_;
      auto* operands = reinterpret_cast<expr::Operand*>(own);
      T* values = reinterpret_cast<T*>(own + tables_);
      T* sums = values + aligned(std::max(evaluator().block(), column_chunk) * element_) / element_;
      void* evaluating = own + thread_bytes_ - aligned(evaluator().scratch());
      for (int64_t task = begin; task < end; ++task) {
        if (inner_reduced_) {
          // Blocks of a long row are summed in double, so that the error does not grow with its length.
          std::conditional_t<std::is_same_v<T, float>, double, T> total = identity<T>(f);
          for (int64_t r = 0; r < outer_reduced_; ++r)
            for (int64_t at = 0; at < extents_.back(); at += evaluator().block()) {
              const int64_t n = std::min(evaluator().block(), extents_.back() - at);
              evaluate(b, task, r, at, n, operands, values, evaluating);
              const T part = fold_row(f, values, n);
              total = fold(f == Fold::squares ? Fold::sum : f, total, static_cast<decltype(total)>(part));
            }
          results[task] = finished(static_cast<T>(total));
          continue;
        }
        const int64_t kept = task / chunks_, from = task % chunks_ * column_chunk,
                      n = std::min(column_chunk, extents_.back() - from);
        std::fill_n(sums, n, identity<T>(f));
        for (int64_t r = 0; r < outer_reduced_; ++r) {
          evaluate(b, kept, r, from, n, operands, values, evaluating);
          fold_lines(f, sums, values, n);
        }
        T* to = results + kept * extents_.back() + from;
        for (int64_t i = 0; i < n; ++i) to[i] = finished(sums[i]);
      }
    });
  }

  template <class T> void evaluate(const Buffers& b, int64_t kept, int64_t reduced, int64_t from, int64_t n,
                                   expr::Operand* operands, T* values, void* scratch) const {
    locate(b, kept, reduced, from, operands);
    void* out = values;
    evaluator().run(n, {operands, strides_.size()}, {&out, 1}, scratch);
  }

  Problem p_;
  DType type_;
  int threads_;
  Shape extents_;  // merged
  std::vector<bool> reduced_;
  std::vector<Shape> strides_;  // of the program's operands
  std::vector<int> bytes_;
  bool inner_reduced_ = true;
  int64_t kept_ = 1, count_ = 1, outer_kept_ = 1, outer_reduced_ = 1, chunks_ = 1, element_ = 4, tables_ = 0, thread_bytes_ = 0;
  std::optional<expr::Evaluator> evaluator_;
  std::optional<Sweep> post_;
  std::vector<const void*> post_inputs_;
};

/// log Σ exp(x): the largest, m, then m + log Σ exp(x - m). An infinite one is not taken away.
class LogSumExpKernel final : public Kernel {
 public:
  LogSumExpKernel(const BoundNode& b, const Problem& top, const Problem& sum, const BoundTensor& largest, int threads)
      : node_(*b.node), bytes_(aligned(storage_bytes(largest))) {
    Node keeps = *b.node;
    keeps.attrs["keepdims"] = int64_t{1};
    const BoundNode first{&keeps, {b.inputs[0]}, {largest}};
    top_ = std::make_unique<ReduceKernel>(first, top, threads);
    // The sum's result has the largest's shape or, without the axes that are gone, its elements.
    BoundTensor same = largest;
    same.shape = b.outputs[0].shape;
    sum_ = std::make_unique<ReduceKernel>(BoundNode{&node_, {b.inputs[0], largest, same}, b.outputs}, sum, threads);
  }
  int64_t workspace() const override { return bytes_ + std::max(top_->workspace(), sum_->workspace()); }
  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    void* largest = memory;
    memory += bytes_;
    top_->run({b.inputs.first(1), std::span(&largest, 1), memory});
    const void* const inputs[] = {b.inputs[0], largest, largest};
    sum_->run({inputs, b.outputs, memory});
  }

 private:
  Node node_;
  int64_t bytes_;
  std::unique_ptr<ReduceKernel> top_, sum_;
};

std::optional<Refusal> rejects_result(const Problem& p, const BoundTensor& y) {
  if (!p.post) return is_dense(y) ? std::nullopt : std::optional(refuse(Reason::wrong_layout, "the result is not dense"));
  const Shape strides[] = {memory_strides(y)};
  return Sweep::rejects(*p.post, y.shape, strides);
}

void offer_log_sum_exp(const BoundNode& b, const Machine& machine, Offer& offer) {
  using expr::Fn;
  auto axes = listed_axes(b);
  if (!axes) return offer.refuse("cpu", axes.refusal());
  const DType from = b.inputs[0].type, type = folded(from, true);
  if (type == DType::undefined) return offer.refuse("cpu", Reason::wrong_type, "its type is {}", name(from));
  if (const auto why = rejects_layouts_of(b)) return offer.refuse("cpu", *why);
  Problem top, sum;
  top.none = sum.none = !axes->has_value();
  if (!top.none) top.axes = sum.axes = **axes;
  top.kind = ReduceKind::max;
  top.before.output(top.before.cast(top.before.input(from), type));
  expr::Program& post_top = top.post.emplace();
  const expr::Ref m = post_top.input(type);
  post_top.output(post_top.call(Fn::select, post_top.call(Fn::is_inf, m), post_top.constant(type, 0), m));
  const expr::Ref x = sum.before.input(from), largest = sum.before.input(type);
  sum.before.output(sum.before.call(Fn::exp, sum.before.call(Fn::sub, sum.before.cast(x, type), largest)));
  expr::Program& post = sum.post.emplace();
  const expr::Ref total = post.input(type), back = post.input(type);
  post.output(post.cast(post.call(Fn::add, post.call(Fn::log, total), back), from));
  sum.inputs_before = 2, sum.inputs = 3;
  if (const auto why = rejects_result(sum, b.outputs[0])) return offer.refuse("cpu", *why);
  std::vector<int64_t> reduced = top.axes;
  for (int64_t a = 0; reduced.empty() && !top.none && a < static_cast<int64_t>(b.inputs[0].shape.size()); ++a)
    reduced.push_back(a);
  reduced = normalize_axes(reduced, static_cast<int64_t>(b.inputs[0].shape.size()));
  const BoundTensor kept{type, reduced_shape(b.inputs[0].shape, reduced, true)};
  const double estimate = 4 + static_cast<double>(elements(b.inputs[0].shape)) / 700 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, top, sum, kept, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<LogSumExpKernel>(bound, top, sum, kept, threads);
                              }});
}

}  // namespace

void offer_reduce_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (is_log_sum_exp(*b.node)) return offer_log_sum_exp(b, machine, offer);
  if (!b.node->is("Reduce", smelt_domain) && !onnx_reduction(*b.node)) return;
  const auto found = problem_of(b);
  if (!found) return offer.refuse("cpu", found.refusal());
  const Problem& p = *found;
  if (const auto why = rejects_result(p, b.outputs[0])) return offer.refuse("cpu", *why);
  double count = 0;
  for (const BoundTensor& t : b.inputs) count += static_cast<double>(t.type == DType::undefined ? 0 : elements(t.shape));
  offer.candidates.push_back({"cpu", "", 2 + count / 2000 / machine.threads, [b, p, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<ReduceKernel>(bound, p, threads);
                              }});
}

}  // namespace smelt::ops

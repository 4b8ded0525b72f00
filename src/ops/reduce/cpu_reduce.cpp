// ai.smelt.Reduce, ONNX's reductions and pooling over whole planes: the program evaluated block by block and folded as it comes,
// then `post` over what remains. Axes are merged; where the innermost one is reduced, rows are folded to a number each, otherwise
// whole lines of results gather element by element, and so they do where rows are short.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/reduce/cpu_reduce.h"
#include "ops/reduce/offer.h"

namespace smelt::ops {
namespace {

constexpr int64_t column_chunk = 512;
/// Rows up to here are no rows: a call for each costs more than reading elements that lie apart.
constexpr int64_t short_row = 32;

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
  ReduceKernel(const BoundNode& b, const ReduceProblem& p, int threads)
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

  ReduceProblem p_;
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

}  // namespace

std::unique_ptr<Kernel> reduce_kernel(const BoundNode& b, const ReduceProblem& p, int threads) {
  return std::make_unique<ReduceKernel>(b, p, threads);
}

void offer_reduce_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (b.node->is("ReduceLogSumExp")) return offer_log_sum_exp(b, machine, offer);
  const auto found = reduce_problem(b);
  if (!found) return;
  if (!*found) return offer.refuse("cpu", found->refusal());
  const ReduceProblem& p = **found;
  if (const auto why = rejects_result(p, b.outputs[0])) return offer.refuse("cpu", *why);
  double count = 0;
  for (const BoundTensor& t : b.inputs) count += static_cast<double>(t.type == DType::undefined ? 0 : elements(t.shape));
  offer.candidates.push_back({"cpu", "", 2 + count / 2000 / machine.threads, [b, p, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return reduce_kernel(bound, p, threads);
                              }});
}

}  // namespace smelt::ops

// ai.smelt.Reduce, ONNX's reductions and pooling over whole planes: elements folded where they lie, or the program evaluated block by
// block and folded as it comes; then `post` over what remains. Axes are merged. Where the innermost one is reduced, rows are folded to
// a number each, as many at once as lie equally far apart; otherwise whole lines of results gather element by element, and so they do
// where rows are short. Operands whose short rows lie apart are gathered first, so that the program runs over blocks, and where a
// result has few elements, those of many. Where few results have many elements, their parts are folded apart and then together. Images
// are folded in the order in which they lie, channels-last or plain.
#include <fmt/core.h>

#include <algorithm>

#include "base/number.h"
#include "ops/core/align.h"
#include "ops/core/any_booleans.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/reduce/cpu_fold.h"
#include "ops/reduce/cpu_nest.h"
#include "ops/reduce/cpu_reduce.h"
#include "ops/reduce/cpu_small.h"
#include "ops/reduce/offer.h"

namespace smelt::ops {
namespace {

constexpr int64_t column_chunk = 512;
constexpr int64_t rows_at_once = 128;
constexpr int64_t short_run = 48;  // below, a run of the program costs more than gathering its operands

Shape shape_before(const BoundNode& b, const ReduceProblem& p) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < p.inputs_before; ++i) shapes.push_back(b.inputs[i].shape);
  return broadcast_all(shapes);
}

std::vector<int64_t> all_axes(const ReduceProblem& p, const Shape& shape) {
  std::vector<int64_t> axes = p.axes;
  for (int64_t a = 0; p.axes.empty() && !p.none && a < static_cast<int64_t>(shape.size()); ++a) axes.push_back(a);
  return normalize_axes(axes, static_cast<int64_t>(shape.size()));
}

class ReduceKernel final : public Kernel, public TakesAnyBooleans {
 public:
  ReduceKernel(const BoundNode& b, const ReduceProblem& p, int threads)
      : p_(p),
        fold_(fold_of(p.kind)),
        type_(p.before.type(p.before.outputs()[0])),
        element_(bits(type_) / 8),
        nest_(b, p.inputs_before, shape_before(b, p), all_axes(p, shape_before(b, p)),
              axes_in_memory(b, p.inputs_before, shape_before(b, p))),
        ends_(p.kind, type_, nest_.count) {
    const int64_t inner = nest_.inner(), around = nest_.around(!nest_.inner_reduced);
    chunks_ = nest_.inner_reduced ? 1 : (inner + column_chunk - 1) / column_chunk;
    direct_ = p_.before.outputs()[0] == 0 && (inner == 1 || nest_.strides[0].back() == 1);
    parts_ = parts();
    if (parts_ == 1) small_ = SmallFolds::of(nest_, p_.before.outputs()[0] == 0);
    gathers_ = !direct_ && chunks_ == 1 && (small_.has_value() || (inner < short_run && around > 1 && !nest_.is_flat()));
    const bool flat = gathers_ || (chunks_ == 1 && nest_.is_flat());
    of_rows_ = nest_.is_lines_of_rows();
    const int64_t run = small_ || of_rows_ ? nest_.count * nest_.kept : flat ? inner * around : inner;
    evaluator_.emplace(p_.before, simd::best(), nest_.inner_reduced || flat ? run : std::min(inner, column_chunk));
    capacity_ = std::max(evaluator().block(), column_chunk);
    at_once_ = direct_ ? around : flat ? std::clamp<int64_t>(capacity_ / std::max<int64_t>(inner, 1), 1, around) : 1;
    if (nest_.inner_reduced) at_once_ = std::min(at_once_, rows_at_once);
    if (of_rows_) at_once_ = std::clamp<int64_t>(column_chunk / inner, 1, at_once_);
    threads_ = useful_threads(threads, nest_.count * nest_.kept * (1 + evaluator().loops()));
    tables_ = aligned(static_cast<int64_t>(sizeof(expr::Operand) * p_.inputs_before));
    thread_bytes_ = tables_ + aligned(capacity_ * element_) + aligned(evaluator().scratch());
    for (int bytes : nest_.bytes) thread_bytes_ += gathers_ ? aligned(capacity_ * bytes) : 0;
    const BoundTensor reduced = reduced_tensor(b);
    if (!p_.post && !lies_like(reduced, b.outputs[0])) p_.post = expr::conversion(type_, type_);
    if (p_.post) add_post(b, reduced, threads);
  }

  int64_t workspace() const override {
    return reduced_bytes() + part_bytes() + std::max(threads_ * thread_bytes_, post_ ? post_->workspace() : 0);
  }

  /// Extremes of bools are of their bytes: where one is 0, and where all are.
  bool takes_any_boolean(size_t i) const override { return i == 0 && type_ == DType::boolean; }

  void run(const Buffers& b) override {
    char* scratch = static_cast<char*>(b.workspace);
    void* reduced = post_ ? scratch : b.outputs[0];
    scratch += reduced_bytes();
    switch (type_) {
      case DType::f32: reduce<float>(b, reduced, scratch); break;
      case DType::f64: reduce<double>(b, reduced, scratch); break;
      case DType::i32: reduce<int32_t>(b, reduced, scratch); break;
      case DType::i8: reduce<int8_t>(b, reduced, scratch); break;
      case DType::boolean:
      case DType::u8: reduce<uint8_t>(b, reduced, scratch); break;
      default: reduce<int64_t>(b, reduced, scratch);
    }
    if (!post_) return;
    post_inputs_.assign(1, reduced);
    for (size_t i = p_.inputs_before; i < p_.inputs; ++i) post_inputs_.push_back(b.inputs[i]);
    post_->run(post_inputs_, b.outputs, scratch + part_bytes());
  }

 private:
  const expr::Evaluator& evaluator() const { return value_of(evaluator_, "the evaluator of a reduction"); }
  int64_t reduced_bytes() const { return aligned(nest_.kept * element_); }
  int64_t part_bytes() const { return parts_ > 1 ? aligned(parts_ * nest_.kept * element_) : 0; }

  /// What the fold writes: the kept axes in the order in which the nest walks them.
  BoundTensor reduced_tensor(const BoundNode& b) const {
    const bool keepdims = b.node->get_int("keepdims", 1) != 0;
    const Shape shape = shape_before(b, p_);
    const std::vector<int64_t> axes = all_axes(p_, shape);
    const auto folds = [&](size_t a) { return std::ranges::find(axes, static_cast<int64_t>(a)) != axes.end(); };
    BoundTensor reduced{type_, reduced_shape(shape, axes, keepdims)};
    const std::vector<size_t> order = axes_in_memory(b, p_.inputs_before, shape);
    Shape steps(shape.size(), 1);
    int64_t step = 1;
    for (size_t i = order.size(); i-- > 0;) {
      if (folds(order[i])) continue;
      steps[order[i]] = step;
      step *= std::max<int64_t>(shape[order[i]], 1);
    }
    for (size_t a = 0; a < shape.size(); ++a)
      if (keepdims || !folds(a)) reduced.strides.push_back(steps[a]);
    return reduced;
  }

  static bool lies_like(const BoundTensor& reduced, const BoundTensor& y) {
    const Shape steps = memory_strides(y);
    for (size_t a = 0; a < y.shape.size(); ++a)
      if (y.shape[a] > 1 && steps[a] != reduced.strides[a]) return false;
    return true;
  }

  void add_post(const BoundNode& b, const BoundTensor& reduced, int threads) {
    const BoundTensor& y = b.outputs[0];
    std::vector<Shape> views = {broadcast_strides(reduced, y.shape.size())};
    for (size_t i = p_.inputs_before; i < p_.inputs; ++i) views.push_back(broadcast_strides(b.inputs[i], y.shape.size()));
    views.push_back(memory_strides(y));
    post_.emplace(value_of(p_.post, "what comes after a reduction"), y.shape, views, threads);
  }

  bool splits_rows() const { return nest_.inner_reduced && nest_.outer_reduced == 1; }

  /// In how many parts a result's elements are folded: by the extents alone, so that no bit depends on the number of threads.
  int64_t parts() const {
    constexpr int64_t most = 16, worth = int64_t{1} << 17, least_lines = 16;
    const int64_t work = nest_.count * nest_.kept, units = nest_.outer_kept * chunks_;
    if (units >= most || work < worth || nest_.kept > worth / 16) return 1;
    // What a part folds to is written and read again: as few as share the work, and of many lines each.
    const int64_t longest = splits_rows() ? nest_.inner() / 4096 : nest_.outer_reduced / least_lines;
    return std::clamp<int64_t>(longest, 1, divide_up(most, units));
  }

  /// A thread's memory.
  template <class T> struct Own {
    expr::Operand* operands;
    T* values;
    char* gathered;
    void* evaluating;
  };

  template <class T> void reduce(const Buffers& b, void* reduced, char* scratch) const {
    T* results = static_cast<T*>(reduced);
    if (nest_.count == 0) return std::fill_n(results, nest_.kept, ends_.finished(identity<T>(fold_))), void();
    T* to = parts_ > 1 ? reinterpret_cast<T*>(scratch) : results;
    scratch += part_bytes();
    const int64_t units = nest_.outer_kept * chunks_;
    parallel(threads_, units * parts_, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = scratch + thread * thread_bytes_;
      const Own<T> memory{reinterpret_cast<expr::Operand*>(own), reinterpret_cast<T*>(own + tables_),
                          own + tables_ + aligned(capacity_ * element_), own + thread_bytes_ - aligned(evaluator().scratch())};
      if (small_) return fold_small(*small_, b, begin, end, to, memory);
      while (begin < end) {
        const int64_t part = begin / units, first = begin % units;
        const int64_t n = nest_.inner_reduced ? rows_from(first, std::min(end - begin, units - first)) : 1;
        if (nest_.inner_reduced)
          fold_rows(b, part, first, n, to + part * nest_.kept, memory);
        else
          fold_lines(b, part, first / chunks_, first % chunks_ * column_chunk, to + part * nest_.kept, memory);
        begin += n;
      }
    });
    if (parts_ == 1) return;
    std::fill_n(results, nest_.kept, identity<T>(fold_));
    folds_of<T>().lines(joining(fold_), results, to, nest_.kept, parts_, nest_.kept);
    ends_.finish(results, nest_.kept);
  }

  /// How many rows from `kept` on lie equally far apart, of `most`.
  int64_t rows_from(int64_t kept, int64_t most) const {
    return std::min({at_once_, most, nest_.around(false) - kept % nest_.around(false)});
  }

  template <class T>
  void fold_rows(const Buffers& b, int64_t part, int64_t kept, int64_t n, T* results, const Own<T>& own) const {
    if (of_rows_) return fold_lines_of_rows(b, part, kept, n, results, own);
    // Parts of a long row are summed in double, so that the error does not grow with its length.
    using A = std::conditional_t<std::is_same_v<T, float>, double, T>;
    const int64_t row = nest_.inner(), from = splits_rows() ? row * part / parts_ : 0,
                  end = splits_rows() ? row * (part + 1) / parts_ : row, piece = direct_ ? end - from : capacity_;
    const int64_t begin = splits_rows() ? 0 : nest_.outer_reduced * part / parts_,
                  last = splits_rows() ? 1 : nest_.outer_reduced * (part + 1) / parts_;
    const int64_t step = direct_ ? nest_.step_around(0) : row;
    if (last - begin == 1 && end - from <= piece) {
      folds_of<T>().rows(fold_, fetch(b, kept, begin, from, n * (end - from), own), step, n, end - from, results + kept);
    } else {
      A totals[rows_at_once];
      T parts[rows_at_once];
      std::fill_n(totals, n, identity<A>(fold_));
      for (int64_t r = begin; r < last; ++r) {
        for (int64_t at = from; at < end; at += piece) {
          const int64_t length = std::min(piece, end - at);
          folds_of<T>().rows(fold_, fetch(b, kept, r, at, n * length, own), step, n, length, parts);
          for (int64_t i = 0; i < n; ++i) totals[i] = joined(joining(fold_), totals[i], static_cast<A>(parts[i]));
        }
      }
      for (int64_t i = 0; i < n; ++i) results[kept + i] = static_cast<T>(totals[i]);
    }
    if (parts_ == 1) ends_.finish(results + kept, n);
  }

  /// Lines of n rows, and then each row of what they fold to.
  template <class T>
  void fold_lines_of_rows(const Buffers& b, int64_t part, int64_t kept, int64_t n, T* results, const Own<T>& own) const {
    using A = std::conditional_t<std::is_same_v<T, float>, double, T>;
    constexpr int64_t most = 256;  // lines to a sum of f32
    const int64_t row = nest_.inner(), length = n * row, around = nest_.around(false), all = around * row,
                  end = nest_.outer_reduced * (part + 1) / parts_;
    // Lines of all rows lie one behind the other, so that one run of the program has some of them.
    const int64_t together = direct_ ? most : n == around ? std::max<int64_t>(capacity_ / length, 1) : 1;
    A totals[rows_at_once];
    T lines[column_chunk], parts[rows_at_once];
    std::fill_n(totals, n, identity<A>(fold_));
    for (int64_t r = nest_.outer_reduced * part / parts_; r < end;) {
      std::fill_n(lines, length, identity<T>(fold_));
      for (const int64_t last = std::min(end, r + most); r < last;) {
        const int64_t some = std::min(together, last - r);
        const T* x = fetch(b, kept, r, 0, some * length, own);
        folds_of<T>().lines(fold_, lines, x, direct_ ? all : length, some, length);
        r += some;
      }
      folds_of<T>().rows(joining(fold_), lines, row, n, row, parts);
      for (int64_t i = 0; i < n; ++i) totals[i] = joined(joining(fold_), totals[i], static_cast<A>(parts[i]));
    }
    for (int64_t i = 0; i < n; ++i) results[kept + i] = static_cast<T>(totals[i]);
    if (parts_ == 1) ends_.finish(results + kept, n);
  }

  template <class T>
  void fold_small(const SmallFolds& small, const Buffers& b, int64_t begin, int64_t end, T* results, const Own<T>& own) const {
    if (small.in_place()) {
      const auto* x = static_cast<const T*>(b.inputs[0]);
      small.fold(fold_, x + begin * nest_.strides[0][0], nest_.strides[0][0], nest_.strides[0].back(), end - begin,
                 results + begin * nest_.inner());
      return ends_.finish(results + begin * nest_.inner(), (end - begin) * nest_.inner());
    }
    const int64_t each = nest_.count * nest_.inner(), most = capacity_ / each;
    for (; begin < end; begin += most) {
      const int64_t some = std::min(most, end - begin);
      nest_.locate(b, begin, 0, 0, own.operands);
      char* to = own.gathered;
      for (size_t k = 0; k < nest_.strides.size(); ++k) {
        const Shape& s = nest_.strides[k];
        const size_t last = s.size() - 1;
        const int64_t lines = nest_.extents[last - 1], groups = nest_.count / lines;  // groups: of the other reduced axis
        const bool dense = s[0] == each && s[1] == each / nest_.extents[1] && s[last - 1] == nest_.inner() && s[last] == 1;
        if (dense || std::ranges::all_of(s, [](int64_t step) { return step == 0; })) continue;
        const expr::GatherFn gather = expr::gather_of(nest_.bytes[k]);
        const auto* from = static_cast<const char*>(own.operands[k].data);
        for (int64_t i = 0; i < some * groups; ++i)
          gather(to + i * lines * nest_.inner() * nest_.bytes[k],
                 from + (i / groups * s[0] + i % groups * (groups > 1 ? s[1] : 0)) * nest_.bytes[k], s[last], nest_.inner(),
                 s[last - 1], lines);
        own.operands[k] = {to, 1};
        to += aligned(capacity_ * nest_.bytes[k]);
      }
      small.fold(fold_, evaluated(some * each, own), each, 1, some, results + begin * nest_.inner());
      ends_.finish(results + begin * nest_.inner(), some * nest_.inner());
    }
  }
  template <class T>
  void fold_lines(const Buffers& b, int64_t part, int64_t kept, int64_t from, T* results, const Own<T>& own) const {
    const int64_t n = std::min(column_chunk, nest_.inner() - from), around = nest_.around(true),
                  end = nest_.outer_reduced * (part + 1) / parts_, step = direct_ ? nest_.step_around(0) : n;
    T* to = results + kept * nest_.inner() + from;
    std::fill_n(to, n, identity<T>(fold_));
    for (int64_t r = nest_.outer_reduced * part / parts_; r < end;) {
      const int64_t lines = std::min({at_once_, around - r % around, end - r});
      folds_of<T>().lines(fold_, to, fetch(b, kept, r, from, lines * n, own), step, lines, n);
      r += lines;
    }
    if (parts_ == 1) ends_.finish(to, n);
  }

  /// The n values from there on: where they lie, or evaluated.
  template <class T>
  const T* fetch(const Buffers& b, int64_t kept, int64_t reduced, int64_t from, int64_t n, const Own<T>& own) const {
    nest_.locate(b, kept, reduced, from, own.operands);
    if (direct_) return static_cast<const T*>(own.operands[0].data);
    if (gathers_) gather_rows(n, own);
    return evaluated(n, own);
  }

  /// The operands' n elements, whole rows, one behind the other where they do not lie so.
  template <class T> void gather_rows(int64_t n, const Own<T>& own) const {
    char* to = own.gathered;
    for (size_t k = 0; k < nest_.strides.size(); ++k) {
      const int64_t inner = nest_.inner(), step = nest_.strides[k].back(), around = nest_.step_around(k);
      if (around == step * inner) continue;
      expr::gather_of(nest_.bytes[k])(to, own.operands[k].data, step, inner, around, n / inner);
      own.operands[k] = {to, 1};
      to += aligned(capacity_ * nest_.bytes[k]);
    }
  }

  template <class T> const T* evaluated(int64_t n, const Own<T>& own) const {
    void* out = own.values;
    evaluator().run(n, {own.operands, nest_.strides.size()}, {&out, 1}, own.evaluating);
    return own.values;
  }

  ReduceProblem p_;
  Fold fold_;
  DType type_;
  int64_t element_;
  FoldNest nest_;
  FoldEnd ends_;
  bool direct_ = false;  // the program is its operand, whose elements lie side by side
  std::optional<SmallFolds> small_;
  bool of_rows_ = false;  // nest_.is_lines_of_rows()
  bool gathers_ = false;  // operands are gathered into blocks for the program
  int64_t chunks_ = 1, capacity_ = 1, at_once_ = 1, parts_ = 1, tables_ = 0, thread_bytes_ = 0;
  int threads_ = 1;
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
  if (offer_byte_sums(b, p, machine, offer)) return;
  double count = 0;
  for (const BoundTensor& t : b.inputs) count += static_cast<double>(t.type == DType::undefined ? 0 : elements(t.shape));
  offer.candidates.push_back({"cpu", "", 2 + count / 2000 / machine.threads, [b, p, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return reduce_kernel(bound, p, threads);
                              }});
}

}  // namespace smelt::ops

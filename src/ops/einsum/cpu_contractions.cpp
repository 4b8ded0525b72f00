// Contractions that are no single product: their steps, and the kernel of a step whose loops are no product's.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/einsum/steps.h"

namespace smelt::ops {
namespace {

/// An operand or what a step made, and who makes it.
struct Value {
  LoopOperand operand;
  size_t made_by;
};

bool others_have(const std::vector<Value>& values, size_t loop, size_t a, size_t b) {
  for (size_t i = 0; i < values.size(); ++i)
    if (i != a && i != b && values[i].operand.has(loop)) return true;
  return false;
}

/// The loops of values a and b (of a alone where they are the same): those that the rest still needs, then those that are summed.
struct Chosen {
  std::vector<size_t> kept, summed;
  double work = 1, made = 1;
};
Chosen choose(const Loops& l, const std::vector<Value>& values, size_t a, size_t b) {
  Chosen c;
  for (size_t loop = 0; loop < l.extents.size(); ++loop) {
    if (!values[a].operand.has(loop) && !values[b].operand.has(loop)) continue;
    const bool keeps = loop < l.outer || others_have(values, loop, a, b);
    (keeps ? c.kept : c.summed).push_back(loop);
    c.work *= static_cast<double>(l.extents[loop]);
    if (keeps) c.made *= static_cast<double>(l.extents[loop]);
  }
  return c;
}

ContractionStep step_of(const Loops& l, const std::vector<Value>& values, size_t a, size_t b, const Chosen& c) {
  ContractionStep s;
  std::vector<size_t> loops = c.kept;
  s.loops.outer = loops.size();
  loops.insert(loops.end(), c.summed.begin(), c.summed.end());
  for (const size_t loop : loops) s.loops.extents.push_back(l.extents[loop]);
  for (const size_t i : a == b ? std::vector{a} : std::vector{a, b}) {
    LoopOperand o;
    for (const size_t loop : loops) o.steps.push_back(values[i].operand.steps[loop]);
    s.loops.operands.push_back(std::move(o));
    s.reads.push_back(values[i].made_by);
  }
  return s;
}

/// acc[i] += a[i] b[i], elements sa and sb apart.
template <class Sum, class T> void add_products(Sum* acc, const T* a, int64_t sa, const T* b, int64_t sb, int64_t n) {
  if (sa == 1 && sb == 1) {
    for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<Sum>(a[i]) * static_cast<Sum>(b[i]);
  } else if (sa == 1 && sb == 0) {
    const Sum v = static_cast<Sum>(*b);
    for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<Sum>(a[i]) * v;
  } else if (sa == 0 && sb == 1) {
    const Sum v = static_cast<Sum>(*a);
    for (int64_t i = 0; i < n; ++i) acc[i] += v * static_cast<Sum>(b[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<Sum>(a[i * sa]) * static_cast<Sum>(b[i * sb]);
  }
}

/// y[i] = a[i] b[i]
template <class T> void multiply(T* y, const T* a, int64_t sa, const T* b, int64_t sb, int64_t n) {
  if (sa == 1 && sb == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
  } else if (sa == 1 && sb == 0) {
    for (int64_t i = 0, v = 0; i < n; ++i) y[i] = a[i] * b[v];
  } else if (sa == 0 && sb == 1) {
    for (int64_t i = 0, v = 0; i < n; ++i) y[i] = a[v] * b[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = a[i * sa] * b[i * sb];
  }
}

template <class T> class RowsKernel final : public Kernel {
 public:
  RowsKernel(const Loops& l, int threads) : l_(l) {
    if (l_.operands.size() == 1) l_.operands.push_back({Shape(l.extents.size(), 0)});  // times one
    for (size_t a = 0; a < l.extents.size(); ++a) (a < l.outer ? rows_ : sums_) *= l.extents[a];
    row_ = l.outer ? l.extents[l.outer - 1] : 1;
    rows_ /= row_;
    line_ = l.outer < l.extents.size() ? l.extents.back() : 1;
    constexpr int64_t few = 8;
    along_line_ = row_ < few && line_ > row_;
    threads_ = useful_threads(threads, rows_ * row_ * sums_);
  }

  void run(const Buffers& b) override {
    const T one = 1;
    const T* in[] = {static_cast<const T*>(b.inputs[0]), b.inputs.size() > 1 ? static_cast<const T*>(b.inputs[1]) : &one};
    T* out = static_cast<T*>(b.outputs[0]);
    parallel(threads_, rows_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t at[2] = {}, rest = r;
        for (size_t a = l_.outer ? l_.outer - 1 : 0; a-- > 0; rest /= l_.extents[a])
          for (size_t k = 0; k < 2; ++k) at[k] += rest % l_.extents[a] * l_.operands[k].steps[a];
        row(in[0] + at[0], in[1] + at[1], out + r * row_);
      }
    });
  }

 private:
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;

  int64_t step(size_t operand, size_t loop) const { return loop < l_.extents.size() ? l_.operands[operand].steps[loop] : 0; }

  void row(const T* a, const T* b, T* y) const {
    const size_t own = l_.outer ? l_.outer - 1 : l_.extents.size();
    const int64_t sa = l_.outer ? step(0, own) : 0, sb = l_.outer ? step(1, own) : 0;
    if (sums_ == 1) return multiply(y, a, sa, b, sb, row_);
    if (along_line_) {
      const size_t last = l_.extents.size() - 1;
      for (int64_t j = 0; j < row_; ++j) {
        Sum total = 0;
        walk(last, a + j * sa, b + j * sb, [&](const T* p, const T* q) { total += line(p, step(0, last), q, step(1, last)); });
        y[j] = static_cast<T>(total);
      }
      return;
    }
    constexpr int64_t chunk = 256;
    Sum acc[chunk];
    for (int64_t j = 0; j < row_; j += chunk) {
      const int64_t n = std::min(chunk, row_ - j);
      std::fill_n(acc, n, Sum(0));
      walk(l_.extents.size(), a + j * sa, b + j * sb, [&](const T* p, const T* q) { add_products(acc, p, sa, q, sb, n); });
      for (int64_t i = 0; i < n; ++i) y[j + i] = static_cast<T>(acc[i]);
    }
  }

  /// The sum along the last loop, in parts, as registers take them.
  Sum line(const T* a, int64_t sa, const T* b, int64_t sb) const {
    constexpr int64_t parts = 8;
    Sum part[parts] = {};
    int64_t i = 0;
    for (; i + parts <= line_; i += parts) add_products(part, a + i * sa, sa, b + i * sb, sb, parts);
    add_products(part, a + i * sa, sa, b + i * sb, sb, line_ - i);
    Sum total = 0;
    for (const Sum p : part) total += p;
    return total;
  }

  /// f of both operands at each turn of the summed loops before `end`.
  template <class F> void walk(size_t end, const T* a, const T* b, F&& f) const {
    int64_t index[most] = {}, turns = 1;
    for (size_t loop = l_.outer; loop < end; ++loop) turns *= l_.extents[loop];
    for (int64_t t = 0; t < turns; ++t) {
      f(a, b);
      for (size_t loop = end; loop-- > l_.outer;) {
        a += step(0, loop), b += step(1, loop);
        if (++index[loop] < l_.extents[loop]) break;
        a -= l_.extents[loop] * step(0, loop), b -= l_.extents[loop] * step(1, loop);
        index[loop] = 0;
      }
    }
  }

  static constexpr size_t most = 8;
  Loops l_;
  int64_t rows_ = 1, row_ = 1, sums_ = 1, line_ = 1;
  bool along_line_ = false;
  int threads_ = 1;
};

class ChainKernel final : public Kernel {
 public:
  ChainKernel(const std::vector<ContractionStep>& steps, std::vector<std::unique_ptr<Kernel>> kernels, size_t operands,
              DType type)
      : kernels_(std::move(kernels)), operands_(operands) {
    for (size_t i = 0; i < steps.size(); ++i) {
      reads_.push_back(steps[i].reads);
      places_.push_back(results_);
      if (i + 1 == steps.size()) break;
      int64_t count = 1;
      for (size_t a = 0; a < steps[i].loops.outer; ++a) count *= steps[i].loops.extents[a];
      results_ += aligned(count * (bits(type) / 8));
    }
    for (const auto& k : kernels_) inner_ = std::max(inner_, k->workspace());
  }
  int64_t workspace() const override { return results_ + inner_; }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    for (size_t i = 0; i < kernels_.size(); ++i) {
      std::vector<const void*> in;
      for (const size_t r : reads_[i]) in.push_back(r < operands_ ? b.inputs[r] : memory + places_[r - operands_]);
      void* out = i + 1 == kernels_.size() ? b.outputs[0] : memory + places_[i];
      kernels_[i]->run({in, std::span(&out, 1), memory + results_});
    }
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::vector<size_t>> reads_;
  std::vector<int64_t> places_;  // of each step's result
  size_t operands_;
  int64_t results_ = 0, inner_ = 0;
};

}  // namespace

std::vector<ContractionStep> contraction_steps(const Loops& l) {
  std::vector<Value> values;
  for (const LoopOperand& o : l.operands) values.push_back({o, values.size()});
  std::vector<ContractionStep> steps;
  const auto make = [&](size_t a, size_t b, const Chosen& c) {
    steps.push_back(step_of(l, values, a, b, c));
    Shape extents;
    for (const size_t loop : c.kept) extents.push_back(l.extents[loop]);
    const Shape dense = strides(extents);
    Value made{{Shape(l.extents.size(), 0)}, l.operands.size() + steps.size() - 1};
    for (size_t i = 0; i < c.kept.size(); ++i)
      if (extents[i] > 1) made.operand.steps[c.kept[i]] = dense[i];
    values[a] = std::move(made);
    if (a != b) values.erase(values.begin() + static_cast<std::ptrdiff_t>(b));
  };
  for (size_t a = 0; a < values.size() && values.size() > 1; ++a)
    if (const Chosen c = choose(l, values, a, a); !c.summed.empty()) make(a, a, c);
  while (values.size() > 2) {
    std::optional<Chosen> best;
    size_t left = 0, right = 0;
    for (size_t a = 0; a < values.size(); ++a)
      for (size_t b = a + 1; b < values.size(); ++b) {
        Chosen c = choose(l, values, a, b);
        if (!best || c.work + c.made < best->work + best->made) best = std::move(c), left = a, right = b;
      }
    make(left, right, *best);
  }
  // The result has all of the output's loops, those of one element too.
  Chosen last;
  for (size_t loop = 0; loop < l.extents.size(); ++loop) {
    const bool has = values[0].operand.has(loop) || values.back().operand.has(loop);
    if (loop < l.outer)
      last.kept.push_back(loop);
    else if (has)
      last.summed.push_back(loop);
  }
  make(0, values.size() - 1, last);
  return steps;
}

std::unique_ptr<Kernel> contraction_rows(const Loops& l, DType type, int threads) {
  if (type == DType::f64) return std::make_unique<RowsKernel<double>>(l, threads);
  if (type == DType::f32) return std::make_unique<RowsKernel<float>>(l, threads);
  if (bits(type) == 64) return std::make_unique<RowsKernel<uint64_t>>(l, threads);
  return std::make_unique<RowsKernel<uint32_t>>(l, threads);
}

double contraction_rows_us(const Loops& l, int threads) {
  double work = 1;
  for (const int64_t e : l.extents) work *= static_cast<double>(e);
  return 1 + work / 1000 / threads;
}

std::unique_ptr<Kernel> contraction_chain(const std::vector<ContractionStep>& steps, std::vector<std::unique_ptr<Kernel>> kernels,
                                          size_t operands, DType type) {
  return std::make_unique<ChainKernel>(steps, std::move(kernels), operands, type);
}

}  // namespace smelt::ops

#include "ops/pointwise/cpu_sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "expr/simd/look_up.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {
namespace {

// Below, a call of the evaluator costs more than gathering its operands, of which it takes bytes many times as fast as f32; operands
// that repeat are gathered once.
constexpr int64_t short_run = 48, short_run_bytes = 192, short_repeated_run = 256;
constexpr int64_t looked_up_at_once = 1024;
constexpr size_t most_tables = 8;       // of inputs
constexpr int64_t most_repeated = 512;  // elements of such an operand: half a block
int width(DType t) { return std::max(bits(t) / 8, 1); }

/// How many elements of a view repeat throughout the output, in its order: those of the axes behind the ones whose strides are 0. As
/// many as the output has where it lies as that does; 0 for another view that does not repeat.
int64_t period(const Shape& extents, const Shape& strides) {
  size_t first = 0;
  while (first < extents.size() && strides[first] == 0) ++first;
  int64_t n = 1;
  bool dense = true;
  for (size_t a = extents.size(); a-- > first; n *= extents[a]) dense &= strides[a] == n;
  return first > 0 || dense ? n : 0;
}

/// By input, whether it is of bools that only functions and casts read to which every byte but 0 is true.
std::vector<bool> reads_any_booleans(const expr::Program& p) {
  std::vector<bool> any(static_cast<size_t>(p.input_count()));
  for (size_t i = 0; i < any.size(); ++i) any[i] = p.type(static_cast<expr::Ref>(i)) == DType::boolean;
  const auto drop = [&](expr::Ref r) {
    if (r >= 0 && static_cast<size_t>(r) < any.size()) any[static_cast<size_t>(r)] = false;
  };
  for (const expr::Instruction& c : p.code()) {
    const bool logical = c.fn == expr::Fn::logical_and || c.fn == expr::Fn::logical_or || c.fn == expr::Fn::logical_xor ||
                         c.fn == expr::Fn::logical_not || c.fn == expr::Fn::cast;
    if (!logical) std::ranges::for_each(c.args, drop);
  }
  std::ranges::for_each(p.outputs(), drop);
  return any;
}

}  // namespace

std::optional<Refusal> Sweep::rejects(const expr::Program& p, const Shape& shape, std::span<const Shape> output_strides) {
  if (elements(shape) == 0) return std::nullopt;
  for (const Shape& s : output_strides) {
    if (s != output_strides[0]) return refuse(Reason::wrong_layout, "its outputs lie differently in memory");
    for (size_t a = 0; a < shape.size(); ++a)
      if (shape[a] > 1 && s[a] <= 0) return refuse(Reason::wrong_layout, "an output's stride along axis {} is {}", a, s[a]);
  }
  if (p.outputs().empty()) return refuse(Reason::unsupported, "its program has no output");
  int64_t innermost = 0;
  for (size_t a = 0; a < shape.size() && !output_strides.empty(); ++a)
    if (shape[a] > 1 && (innermost == 0 || output_strides[0][a] < innermost)) innermost = output_strides[0][a];
  if (innermost > 1) return refuse(Reason::wrong_layout, "its outputs' elements are {} apart", innermost);
  return std::nullopt;
}

Sweep::Sweep(const expr::Program& p, const Shape& shape, const std::vector<Shape>& strides, int threads,
             std::vector<InputTables> tables)
    : inputs_(static_cast<size_t>(p.input_count())),
      count_(elements(shape)),
      tables_(std::move(tables)),
      only_looks_up_(!tables_.empty() && p.code().size() == 1),
      threads_(threads) {
  for (size_t i = 0; i < inputs_; ++i) bytes_.push_back(width(p.type(static_cast<expr::Ref>(i))));
  for (expr::Ref r : p.outputs()) bytes_.push_back(width(p.type(r)));
  bytes_.resize(bytes_.size() + tables_.size(), 1);

  Views views = merged(shape, strides, inputs_);
  extents_ = std::move(views.extents);
  strides_ = std::move(views.strides);

  const Shape dense = smelt::strides(extents_);
  rows_ = integer::RowProgram::match(p);
  const bool repeats = rows_ && rows_->takes_repeated(), tiny = extents_.size() > 1 && extents_.back() < 8;
  bool all_repeat = true, scattered = tiny, one_for_all = false;
  for (size_t i = 0; i < inputs_; ++i) {
    periods_.push_back(period(extents_, strides_[i]));
    all_repeat &= periods_[i] == count_ || (periods_[i] > 0 && periods_[i] <= most_repeated);
    scattered |= strides_[i].back() != 1;
    one_for_all |= periods_[i] == 1;
  }
  const bool can_gather = extents_.size() > 1 && strides_[inputs_] == dense && tables_.empty();
  const bool gathers_rows = rows_ && !repeats && scattered && can_gather && !one_for_all;
  if (!repeats && scattered && !gathers_rows) rows_.reset();
  any_booleans_ = rows_ ? std::vector<bool>(inputs_, false) : reads_any_booleans(p);
  const int64_t fewest = std::max<int64_t>(short_run, short_run_bytes / *std::ranges::max_element(bytes_));
  gathers_ = gathers_rows || ((!rows_ || repeats) && can_gather && extents_.back() < (all_repeat ? short_repeated_run : fewest));
  for (size_t i = 0; i < inputs_ && repeats && !gathers_; ++i)
    if (strides_[i].back() != 0 && strides_[i].back() != 1) rows_.reset();
  evaluator_.emplace(p, simd::widest(), gathers_ ? count_ : extents_.back());
  // A block is a whole number of the longest period that fits: those of the last axes divide each other.
  int64_t longest = 1;
  for (int64_t& n : periods_) {
    if (n > evaluator().block() / 2 && n < count_) n = 0;
    if (n < count_) longest = std::max(longest, n);
  }
  block_ = evaluator().block() / longest * longest;
  const int loops = rows_ ? 1 : evaluator().loops();
  threads_ = useful_threads(threads, count_ * (1 + loops) / 4);
  // Operands, pointers, offsets, then the evaluator's own; gathered blocks in front of it, or what came out of tables.
  const int64_t pointers =
      aligned(static_cast<int64_t>((sizeof(expr::Operand) + sizeof(void*) + sizeof(int64_t)) * bytes_.size()));
  int64_t gathered = 0;
  for (size_t i = 0; i < inputs_ && gathers_; ++i) gathered += aligned(block_ * bytes_[i]);
  const int64_t looked_up = static_cast<int64_t>(tables_.size()) * looked_up_at_once;
  thread_scratch_ = pointers + gathered + looked_up + aligned(evaluator().scratch());
}

void Sweep::run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) const {
  parallel(threads_, count_, gathers_ ? block_ : 64, [&](int64_t begin, int64_t end, int thread) {
    char* scratch = static_cast<char*>(workspace) + thread * thread_scratch_;
    if (gathers_)
      run_gathered(begin, end, inputs, outputs, scratch);
    else
      run_part(begin, end, inputs, outputs, scratch);
  });
}

/// Offsets of every view where run number `run` begins.
void Sweep::locate(int64_t run, int64_t* offsets) const {
  std::fill_n(offsets, strides_.size(), 0);
  for (size_t a = extents_.size() - 1; a-- > 0;) {
    const int64_t at = run % extents_[a];
    run /= extents_[a];
    for (size_t k = 0; k < strides_.size(); ++k) offsets[k] += at * strides_[k][a];
  }
}

void Sweep::run_part(int64_t begin, int64_t end, std::span<const void* const> inputs, std::span<void* const> outputs,
                     char* scratch) const {
  auto* operands = reinterpret_cast<expr::Operand*>(scratch);
  auto* results = reinterpret_cast<void**>(operands + inputs_);
  auto* offsets = reinterpret_cast<int64_t*>(results + outputs.size());
  char* own = scratch + thread_scratch_ - aligned(evaluator().scratch());
  if (!rows_) evaluator().prepare(own);
  const size_t inner = extents_.size() - 1;  // runs lie along it
  const int64_t length = extents_[inner];
  for (int64_t from = begin % length; begin < end;) {
    const int64_t run = begin / length;
    locate(run, offsets);
    // From here on offsets grow by the same steps, up to the end of the axis around runs.
    for (int64_t left = inner > 0 ? extents_[inner - 1] - run % extents_[inner - 1] : 1; left > 0 && begin < end; --left) {
      const int64_t n = std::min(length - from, end - begin);
      for (size_t i = 0; i < inputs_; ++i)
        operands[i] = {static_cast<const char*>(inputs[i]) + (offsets[i] + from * strides_[i][inner]) * bytes_[i],
                       strides_[i][inner]};
      for (size_t o = 0; o < outputs.size(); ++o) {
        const size_t k = inputs_ + o;
        results[o] = static_cast<char*>(outputs[o]) + (offsets[k] + from * strides_[k][inner]) * bytes_[k];
      }
      if (tables_.empty())
        compute(n, operands, {results, outputs.size()}, own);
      else
        look_up(n, operands, {results, outputs.size()}, offsets + inputs_ + outputs.size(), own);
      begin += n;
      from = 0;
      for (size_t k = 0; inner > 0 && k < strides_.size(); ++k) offsets[k] += strides_[k][inner - 1];
    }
  }
}

void Sweep::compute(int64_t n, const expr::Operand* operands, std::span<void* const> results, char* own) const {
  if (rows_)
    rows_->run(n, {operands, inputs_}, results[0]);
  else
    evaluator().run_prepared(n, {operands, inputs_}, results, own);
}

/// n elements of a run, some at a time through their tables first. `at`: which table each of them is.
void Sweep::look_up(int64_t n, expr::Operand* operands, std::span<void*> results, const int64_t* at, char* own) const {
  constexpr int64_t table_bytes = 256;
  const expr::LookUp through = simd::best() == simd::Isa::avx2 ? avx2::best_look_up() : base::look_up;
  const auto table = [&](size_t t) { return tables_[t].bytes->data() + at[t] * table_bytes; };
  const auto bytes = [&](size_t t) { return static_cast<const uint8_t*>(operands[tables_[t].input].data); };
  if (only_looks_up_) return through(static_cast<uint8_t*>(results[0]), bytes(0), n, table(0));
  for (int64_t begin = 0; begin < n; begin += looked_up_at_once) {
    const int64_t count = std::min(looked_up_at_once, n - begin);
    char* to = own;
    const uint8_t* from[most_tables];
    for (size_t t = 0; t < tables_.size(); ++t) {
      to -= looked_up_at_once;
      from[t] = bytes(t);
      through(reinterpret_cast<uint8_t*>(to), from[t], count, table(t));
      operands[tables_[t].input].data = to;
    }
    compute(count, operands, results, own);
    for (size_t t = 0; t < tables_.size(); ++t) operands[tables_[t].input].data = from[t];
    for (size_t i = 0; i < inputs_; ++i)
      operands[i].data = static_cast<const char*>(operands[i].data) + count * operands[i].stride * bytes_[i];
    for (size_t o = 0; o < results.size(); ++o) results[o] = static_cast<char*>(results[o]) + count * bytes_[inputs_ + o];
  }
}

/// `count` elements of an input in the output's order, from element `begin` on.
void Sweep::gather_block(size_t input, const void* data, int64_t begin, int64_t count, char* to) const {
  const Shape& strides = strides_[input];
  const size_t inner = extents_.size() - 1;
  const int64_t length = extents_[inner], around = extents_[inner - 1], bytes = bytes_[input];
  const expr::GatherFn gather = expr::gather_of(static_cast<int>(bytes));
  int64_t run = begin / length, from = begin % length;
  while (count > 0) {
    int64_t offset = from * strides[inner], rest = run;
    for (size_t a = inner; a-- > 0; rest /= extents_[a]) offset += rest % extents_[a] * strides[a];
    // Part of a run, or all whole ones up to the end of the axis around them.
    const bool whole = from == 0 && count >= length;
    const int64_t n = std::min(length - from, count), runs = whole ? std::min(around - run % around, count / length) : 1;
    gather(to, static_cast<const char*>(data) + offset * bytes, strides[inner], n, strides[inner - 1], runs);
    to += runs * n * bytes;
    count -= runs * n;
    run += runs;
    from = 0;
  }
}

void Sweep::run_gathered(int64_t begin, int64_t end, std::span<const void* const> inputs, std::span<void* const> outputs,
                         char* scratch) const {
  auto* operands = reinterpret_cast<expr::Operand*>(scratch);
  auto* results = reinterpret_cast<void**>(operands + inputs_);
  char* own = scratch + thread_scratch_ - aligned(evaluator().scratch());
  evaluator().prepare(own);
  for (bool is_first = true; begin < end; begin += block_, is_first = false) {
    const int64_t n = std::min(block_, end - begin);
    char* block = own;
    for (size_t i = 0; i < inputs_; ++i) {
      block -= aligned(block_ * bytes_[i]);
      const auto* data = static_cast<const char*>(inputs[i]);
      if (periods_[i] == count_) {
        operands[i] = {data + begin * bytes_[i], 1};
      } else if (periods_[i] == 1) {
        operands[i] = {data, 0};
      } else {
        if (is_first || periods_[i] == 0) gather_block(i, data, begin, n, block);
        operands[i] = {block, 1};
      }
    }
    for (size_t o = 0; o < outputs.size(); ++o) results[o] = static_cast<char*>(outputs[o]) + begin * bytes_[inputs_ + o];
    compute(n, operands, {results, outputs.size()}, own);
  }
}

double Sweep::estimate_us() const {
  double bytes = 0;
  for (int b : bytes_) bytes += static_cast<double>(b * count_);
  // 8 GB/s and a loop's 4 elements a nanosecond on each thread: a single core's figures, rounded.
  return 1 + std::max(bytes / 8e3, static_cast<double>(count_ * (rows_ ? 1 : evaluator().loops())) / 4e3) / threads_;
}

}  // namespace smelt::ops

#include "ops/pointwise/cpu_sweep.h"

#include <fmt/core.h>

#include <algorithm>

#include "expr/simd/look_up.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {
namespace {

constexpr int64_t looked_up_at_once = 1024;
constexpr size_t most_tables = 8;  // of inputs

int width(DType t) { return std::max(bits(t) / 8, 1); }

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

  rows_ = integer::RowProgram::match(p);
  const bool repeats = rows_ && rows_->takes_repeated(), tiny = extents_.size() > 1 && extents_.back() < 8;
  bool scattered = tiny, one_for_all = false;
  for (size_t i = 0; i < inputs_; ++i) {
    scattered |= strides_[i].back() != 1;
    one_for_all |= std::ranges::all_of(strides_[i], [](int64_t step) { return step == 0; });
  }
  const bool can_gather = extents_.size() > 1 && count_ > 0 && tables_.empty();
  const bool gathers_rows = rows_ && !repeats && scattered && can_gather && !one_for_all;
  if (!repeats && scattered && !gathers_rows) rows_.reset();
  any_booleans_ = rows_ ? std::vector<bool>(inputs_, false) : reads_any_booleans(p);
  if ((!rows_ || repeats || gathers_rows) && can_gather) {
    evaluator_.emplace(p, simd::widest(), count_);
    tiles_.emplace(extents_, strides_, std::vector<int>(bytes_.begin(), bytes_.begin() + static_cast<int64_t>(inputs_)),
                   evaluator().block());
    if (!tiles_pay(!gathers_rows)) tiles_.reset();
  }
  if (gathers_rows && !tiles_) rows_.reset();
  for (size_t i = 0; i < inputs_ && repeats && !tiles_; ++i)
    if (strides_[i].back() != 0 && strides_[i].back() != 1) rows_.reset();
  if (!tiles_) evaluator_.emplace(p, simd::widest(), extents_.back());
  const int loops = rows_ ? 1 : evaluator().loops();
  threads_ = useful_threads(threads, count_ * (1 + loops) / 4);
  // Operands, pointers, offsets, then the evaluator's own; gathered operands in front of it, or what came out of tables.
  const int64_t offsets = tiles_ ? Tiles::Place::bytes(*tiles_) + static_cast<int64_t>(2 * sizeof(int64_t) * inputs_)
                                 : static_cast<int64_t>(sizeof(int64_t) * bytes_.size());
  const int64_t pointers = aligned(static_cast<int64_t>((sizeof(expr::Operand) + sizeof(void*)) * bytes_.size()) + offsets);
  int64_t gathered = 0;
  for (size_t i = 0; i < inputs_ && tiles_; ++i) gathered += is_gathered(i) ? aligned(tiles_->elements() * bytes_[i]) : 0;
  const int64_t looked_up = static_cast<int64_t>(tables_.size()) * looked_up_at_once;
  thread_scratch_ = pointers + gathered + looked_up + aligned(evaluator().scratch());
}

bool Sweep::is_gathered(size_t input) const {
  const Tiles::Lies lies = tiles_->lies(input);
  return lies == Tiles::Lies::apart || (lies == Tiles::Lies::one_element && !takes_one());
}

/// Whether a tile with its gathering takes less time than its runs one by one, in nanoseconds of a core at 3.7 GHz. `rows_apart`: rows_
/// does those too.
bool Sweep::tiles_pay(bool rows_apart) const {
  constexpr double call = 8, loop = 3, row = 2, byte = 1.0 / 32;
  const double length = static_cast<double>(extents_.back()), runs = static_cast<double>(tiles_->elements()) / length;
  if (runs < 2) return false;
  const bool by_rows = rows_ && rows_apart;
  double apart = call + (by_rows ? 1 : evaluator().loops()) * loop,
         together = (call + (rows_ ? 1 : evaluator().loops()) * loop) / runs;
  for (size_t i = 0; i < inputs_; ++i) {
    const double filled = row + length * bytes_[i] * byte;
    if (strides_[i].back() != 1 && !by_rows) apart += filled;
    if (is_gathered(i)) together += filled / static_cast<double>(tiles_->serves(i));
  }
  return together < apart;
}

void Sweep::run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) const {
  parallel(threads_, tiles_ ? tiles_->count() : count_, tiles_ ? 1 : 64, [&](int64_t begin, int64_t end, int thread) {
    char* scratch = static_cast<char*>(workspace) + thread * thread_scratch_;
    if (tiles_)
      run_tiles(begin, end, inputs, outputs, scratch);
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

void Sweep::run_tiles(int64_t begin, int64_t end, std::span<const void* const> inputs, std::span<void* const> outputs,
                      char* scratch) const {
  auto* operands = reinterpret_cast<expr::Operand*>(scratch);
  auto* results = reinterpret_cast<void**>(operands + inputs_);
  char* own = scratch + thread_scratch_ - aligned(evaluator().scratch());
  if (!rows_) evaluator().prepare(own);
  char* memory = own;
  for (size_t i = 0; i < inputs_; ++i) {
    if (is_gathered(i)) memory -= aligned(tiles_->elements() * bytes_[i]);
    operands[i] = {is_gathered(i) ? memory : nullptr, tiles_->lies(i) == Tiles::Lies::one_element && takes_one() ? 0 : 1};
  }
  // What a tile's gathered elements are made of: where they begin, and of how many entries there are enough.
  Tiles::Place place(*tiles_, begin, results + outputs.size());
  auto* made = reinterpret_cast<int64_t*>(reinterpret_cast<char*>(results + outputs.size()) + Tiles::Place::bytes(*tiles_));
  for (size_t i = 0; i < inputs_; ++i) made[2 * i] = -1, made[2 * i + 1] = 0;
  for (; begin < end; ++begin, place.next()) {
    const int64_t n = place.elements();
    for (size_t i = 0; i < inputs_; ++i) {
      const int64_t offset = place.offset(i);
      const char* from = static_cast<const char*>(inputs[i]) + offset * bytes_[i];
      if (!is_gathered(i)) {
        operands[i].data = from;
      } else if (made[2 * i] != offset || made[2 * i + 1] < n) {
        tiles_->gather(i, place.entries(), from, static_cast<char*>(const_cast<void*>(operands[i].data)));
        made[2 * i] = offset, made[2 * i + 1] = n;
      }
    }
    for (size_t o = 0; o < outputs.size(); ++o)
      results[o] = static_cast<char*>(outputs[o]) + place.offset(inputs_ + o) * bytes_[inputs_ + o];
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

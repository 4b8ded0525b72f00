#include "ops/attention/cuda_mask.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/value_of.h"
#include "expr/cpu.h"
#include "ops/core/tactic.h"

namespace smelt::ops {
namespace {

constexpr int64_t most_scores = int64_t{1} << 26;  // that are looked at: 0.1 s
constexpr float lowest = -std::numeric_limits<float>::infinity();

/// What is done to each score of one row, from the program's results at -1, 0 and 1.
enum class Effect : uint8_t { none, hidden, low, other };

class Rows {
 public:
  Rows(const BoundNode& b, const AttentionCuda& p)
      : b_(b),
        p_(p),
        keys_(static_cast<size_t>(p.shape.keys)),
        evaluator_(value_of(p.program, "the program over the scores"), simd::widest(), p.shape.keys),
        scratch_(static_cast<size_t>(evaluator_.scratch()) + 64),
        effects_(keys_) {
    for (auto& r : results_) r.resize(keys_);
  }

  const std::vector<Effect>& row(int64_t batch, int64_t head, int64_t i) {
    static constexpr float probes[] = {-1, 0, 1};
    std::vector<expr::Operand> operands(1 + p_.operands.size());
    for (size_t o = 0; o < p_.operands.size(); ++o) {
      const ScoreOperand& x = p_.operands[o];
      const int64_t at = batch * x.strides[0] + head * x.strides[1] + i * x.strides[2];
      operands[o + 1] = {static_cast<const char*>(b_.inputs[x.input].constant.raw()) + bytes(x.type, at), x.strides[3]};
    }
    void* const scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) / 64 * 64);
    for (size_t k = 0; k < 3; ++k) {
      operands[0] = {&probes[k], 0};
      void* to = results_[k].data();
      evaluator_.run(p_.shape.keys, operands, {&to, 1}, scratch);
    }
    for (size_t j = 0; j < keys_; ++j) {
      const float below = results_[0][j], at = results_[1][j], above = results_[2][j];
      effects_[j] = below == -1 && at == 0 && above == 1                 ? Effect::none
                    : below == lowest && at == lowest && above == lowest ? Effect::hidden
                    : below <= -1e30f && at <= -1e30f && above <= -1e30f ? Effect::low
                                                                         : Effect::other;
    }
    return effects_;
  }

 private:
  const BoundNode& b_;
  const AttentionCuda& p_;
  size_t keys_;
  expr::Evaluator evaluator_;
  std::vector<uint8_t> scratch_;
  std::vector<float> results_[3];
  std::vector<Effect> effects_;
};

}  // namespace

bool adds_or_selects(const expr::Program& p) {
  using expr::Fn;
  // Instructions that depend on the score.
  std::vector<bool> depends(p.code().size());
  if (p.input_count() > 0) depends[0] = true;
  for (size_t i = static_cast<size_t>(p.input_count()); i < p.code().size(); ++i) {
    const expr::Instruction& c = p.code()[i];
    bool on[3];
    for (size_t k = 0; k < 3; ++k) on[k] = c.args[k] >= 0 && depends[static_cast<size_t>(c.args[k])];
    if (!on[0] && !on[1] && !on[2]) continue;
    depends[i] = true;
    const bool keeps = c.fn == Fn::cast && c.type == DType::f32;
    const bool adds = (c.fn == Fn::add && on[0] != on[1]) || (c.fn == Fn::sub && on[0] && !on[1]);
    const bool selects = c.fn == Fn::select && !on[0];
    if (!keeps && !adds && !selects) return false;
  }
  return true;
}

ScoreMask mask_of(const BoundNode& b, const AttentionCuda& p) {
  if (!p.program) return {MaskKind::none, 0};
  if (p.shape.queries == 0 || p.shape.keys == 0 || !adds_or_selects(*p.program)) return {};
  Shape extents{p.shape.batch, p.shape.heads};
  for (size_t a = 0; a < 2; ++a) {
    bool repeats = true;
    for (const ScoreOperand& o : p.operands) repeats = repeats && o.strides[a] == 0;
    if (repeats) extents[a] = 1;
  }
  for (const ScoreOperand& o : p.operands)
    if (!b.inputs[o.input].constant.valid() || !b.inputs[o.input].strides.empty()) return {};
  if (extents[0] * extents[1] * p.shape.queries * p.shape.keys > most_scores) return {};

  Rows rows(b, p);
  bool open = true, causal = true;
  std::optional<int64_t> offset;
  for (int64_t batch = 0; batch < extents[0]; ++batch)
    for (int64_t head = 0; head < extents[1]; ++head)
      for (int64_t i = 0; i < p.shape.queries && (open || causal); ++i) {
        const std::vector<Effect>& row = rows.row(batch, head, i);
        int64_t seen = 0;
        while (seen < p.shape.keys && row[static_cast<size_t>(seen)] == Effect::none) ++seen;
        open = open && seen == p.shape.keys;
        for (int64_t j = seen; j < p.shape.keys && causal; ++j) {
          const Effect e = row[static_cast<size_t>(j)];
          causal = e == Effect::hidden || (e == Effect::low && seen > 0);
        }
        // A row that sees all keys or none fits more than one offset: the first that does not says which.
        if (seen > 0 && seen < p.shape.keys) {
          if (!offset) offset = seen - 1 - i;
          causal = causal && *offset == seen - 1 - i;
        }
      }
  if (open) return {MaskKind::none, 0};
  if (!causal || !offset) return {};
  for (int64_t batch = 0; batch < extents[0]; ++batch)
    for (int64_t head = 0; head < extents[1]; ++head)
      for (int64_t i = 0; i < p.shape.queries; ++i) {  // now that the offset is known, the rows that see all or none
        const int64_t sees = std::clamp<int64_t>(i + *offset + 1, 0, p.shape.keys);
        if (sees > 0 && sees < p.shape.keys) continue;
        const Effect e = rows.row(batch, head, i)[0];
        if ((sees == 0) != (e != Effect::none)) return {};
      }
  return {MaskKind::causal, *offset};
}

ScoreMask ScoreMasks::of(const BoundNode& b, const AttentionCuda& p) {
  if (!p.program) return mask_of(b, p);
  const AttentionShape& s = p.shape;
  std::string key = fmt::format("{} {}x{}x{}x{}", p.program->print(), s.batch, s.heads, s.queries, s.keys);
  Known known;
  for (const ScoreOperand& o : p.operands) {
    const BoundTensor& t = b.inputs[o.input];
    if (!t.constant.valid()) return mask_of(b, p);  // at once: there is nothing to look at
    key += fmt::format(" {}{}:{}:{}", fmt::ptr(t.constant.raw()), print(t), fmt::join(t.strides, ","), fmt::join(o.strides, ","));
    known.constants.push_back(t.constant);
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = known_.find(key); at != known_.end()) return at->second.mask;
  }
  known.mask = mask_of(b, p);
  constexpr size_t most = 64;  // masks that are made for each size that is bound would add up
  const std::lock_guard lock(mutex_);
  if (known_.size() >= most) known_.clear();
  return known_.try_emplace(std::move(key), std::move(known)).first->second.mask;
}

}  // namespace smelt::ops

#include "plan/buffers.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/memory.h"
#include "base/value_of.h"
#include "ops/core/strides.h"
#include "plan/arena.h"
#include "plan/views.h"

namespace smelt::plan {
namespace {

/// The tensors of each buffer.
class Members {
 public:
  explicit Members(const Segment& s) : of_(s.buffers.size()) {
    for (size_t t = 0; t < s.tensors.size(); ++t)
      if (s.tensors[t].buffer >= 0) of_[static_cast<size_t>(s.tensors[t].buffer)].push_back(static_cast<TensorIndex>(t));
  }

  /// Everything that lies in buffer `from` lies in `into` instead, `offset` bytes further on.
  void merge(Segment& s, int32_t from, int32_t into, int64_t offset) {
    std::vector<TensorIndex>&moved = of_[static_cast<size_t>(from)], &there = of_[static_cast<size_t>(into)];
    for (TensorIndex t : moved) {
      s.tensor(t).buffer = into;
      s.tensor(t).offset += offset;
    }
    there.insert(there.end(), moved.begin(), moved.end());
    moved.clear();
    s.buffers[static_cast<size_t>(from)].bytes = 0;
  }

 private:
  std::vector<std::vector<TensorIndex>> of_;
};

/// True when the tensor is all of an arena buffer that may still be moved into another.
bool is_whole(const Segment& s, TensorIndex t) {
  const Buffer& b = s.buffer(t);
  return b.kind == BufferKind::arena && s.tensor(t).offset == 0 && ops::storage_bytes(s.tensor(t)) == b.bytes && b.bytes > 0;
}

void own_buffers(Segment& s) {
  std::vector<BufferKind> kinds(s.tensors.size(), BufferKind::arena);
  for (size_t i = 0; i < s.tensors.size(); ++i) {
    if (s.tensors[i].constant.valid()) kinds[i] = BufferKind::constant;
  }
  for (const Port& p : s.externals) kinds[static_cast<size_t>(p.tensor)] = BufferKind::external;
  for (size_t i = 0; i < s.tensors.size(); ++i) {
    s.tensors[i].buffer = static_cast<int32_t>(s.buffers.size());
    s.tensors[i].offset = 0;
    s.buffers.push_back({.kind = kinds[i], .bytes = ops::storage_bytes(s.tensors[i]), .owner = static_cast<TensorIndex>(i)});
  }
}

void share_views(Segment& s) {
  for (const Step& step : s.steps) {
    if (step.kind != StepKind::view) continue;
    const BoundValue source = s.tensor(step.inputs[0]);
    const bool dense = source.strides.empty() && std::ranges::all_of(step.outputs, [&](TensorIndex t) {
                         return t == absent || s.tensor(t).strides.empty();
                       });
    const auto dense_offsets = dense ? view_offsets(s, step) : std::nullopt;
    std::vector<int64_t> offsets;
    if (dense_offsets)
      offsets = *dense_offsets;
    else
      for (const View& v : value_of(strided_views(s, step, ops::memory_strides(source)), "the form of a strided view"))
        offsets.push_back(bytes(source.type, v.offset));
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      BoundValue& t = s.tensor(step.outputs[i]);
      s.buffers[static_cast<size_t>(t.buffer)].bytes = 0;
      t.buffer = source.buffer;
      t.offset = source.offset + offsets[i];
    }
  }
  std::erase_if(s.steps, [](const Step& step) { return step.kind == StepKind::view; });
}

/// Outer concatenations first, so that a concatenation of concatenations ends in one buffer.
void place_concat_inputs(Segment& s, Members& members) {
  for (auto step = s.steps.rbegin(); step != s.steps.rend(); ++step) {
    if (step->kind != StepKind::concat) continue;
    const auto shape = concat_shape(s, *step);
    if (!shape) continue;
    const BoundValue& y = s.tensor(step->outputs[0]);
    const Shape slice = shape->outer > 1 ? ops::memory_strides(s.tensor(step->outputs[0])) : Shape{};
    int64_t at = 0;
    for (size_t i = 0; i < step->inputs.size(); ++i) {
      const TensorIndex t = step->inputs[i];
      const bool fits =
          shape->outer == 1 ? s.tensor(t).strides.empty() && y.strides.empty() : !slice.empty() && s.tensor(t).strides == slice;
      if (fits && is_whole(s, t) && s.tensor(t).buffer != y.buffer) members.merge(s, s.tensor(t).buffer, y.buffer, y.offset + at);
      at += shape->chunks[i];
    }
  }
}

bool needs_copy(const Segment& s, const Port& p, const std::vector<bool>& taken) {
  return !is_whole(s, p.tensor) || taken[static_cast<size_t>(s.tensor(p.tensor).buffer)];
}

void separate_results(Segment& s) {
  std::vector<bool> taken(s.buffers.size(), false);
  for (Port& p : s.results) {
    const BoundValue source = s.tensor(p.tensor);
    const bool empty = ops::storage_bytes(source) == 0;
    if (!empty && !needs_copy(s, p, taken)) {
      taken[static_cast<size_t>(source.buffer)] = true;
      continue;
    }
    BoundValue own = source;
    own.constant = Tensor();
    own.strides = {};
    own.offset = 0;
    own.buffer = static_cast<int32_t>(s.buffers.size());
    s.buffers.push_back({.kind = BufferKind::arena, .bytes = ops::storage_bytes(own)});
    taken.push_back(true);
    const TensorIndex from = p.tensor;
    p.tensor = add_tensor(s, std::move(own));
    if (empty) continue;
    Step copy;
    if (source.strides.empty()) {
      copy.kind = StepKind::copy;
      copy.inputs = {from};
      copy.outputs = {p.tensor};
    } else {
      copy = reorder_step(s, from, p.tensor);
    }
    s.steps.push_back(std::move(copy));
  }
  for (const Port& p : s.results) {
    s.buffer(p.tensor).kind = BufferKind::result;
    s.buffer(p.tensor).owner = p.tensor;
  }
}

bool same_form(const BoundValue& a, const BoundValue& b) {
  return a.type == b.type && a.shape == b.shape && a.layout == b.layout && a.strides == b.strides;
}

void find_lifetimes(Segment& s) {
  for (Buffer& b : s.buffers) b.first = std::numeric_limits<int>::max(), b.last = -1;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const auto touch = [&](int32_t buffer) {
      Buffer& b = s.buffers[static_cast<size_t>(buffer)];
      b.first = std::min(b.first, static_cast<int>(i));
      b.last = std::max(b.last, static_cast<int>(i));
    };
    for (const auto* list : {&s.steps[i].inputs, &s.steps[i].outputs}) {
      for (TensorIndex t : *list) {
        if (t != absent) touch(s.tensor(t).buffer);
      }
    }
    if (s.steps[i].workspace >= 0) touch(s.steps[i].workspace);
  }
}

/// Whether an input of a concatenation already lies in its place, `offset` bytes into the output.
bool lies_in_output(const BoundValue& x, const BoundValue& y, int64_t offset, int64_t outer) {
  return x.buffer == y.buffer && x.offset == y.offset + offset && (outer == 1 || !x.strides.empty());
}

bool in_place(const Step& step, size_t input) {
  return step.kernel->in_place(input) &&
         std::ranges::all_of(step.finalists, [&](const Finalist& f) { return f.kernel->in_place(input); });
}

int64_t workspace(const Step& step) {
  int64_t bytes = step.kernel ? step.kernel->workspace() : 0;
  for (const Finalist& f : step.finalists) bytes = std::max(bytes, f.kernel->workspace());
  return bytes;
}

std::shared_ptr<const ConcatCopy> what_to_copy(const Segment& s, const Step& step) {
  const auto shape = concat_shape(s, step);
  if (!shape) fail("{}: inputs and output of a concatenation differ in layout", ops::label(*step.node));
  auto copy = std::make_shared<ConcatCopy>();
  copy->outer = shape->outer;
  copy->row = shape->row;
  int64_t at = 0;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const int64_t chunk = shape->chunks[i];
    if (chunk > 0 && !lies_in_output(s.tensor(step.inputs[i]), s.tensor(step.outputs[0]), at, shape->outer)) {
      copy->parts.push_back({i, at, chunk});
    }
    at += chunk;
  }
  return copy;
}

}  // namespace

void assign_buffers(Segment& s, bool join_concat_inputs) {
  own_buffers(s);
  share_views(s);
  Members members(s);
  for (const CachePair& c : s.caches) members.merge(s, s.tensor(c.past).buffer, s.tensor(c.present).buffer, 0);
  if (join_concat_inputs) place_concat_inputs(s, members);
  separate_results(s);
  for (Step& step : s.steps) {
    if (step.kind == StepKind::concat) step.concat = what_to_copy(s, step);
  }
  std::erase_if(s.steps, [](const Step& step) { return step.kind == StepKind::concat && step.concat->parts.empty(); });
}

void find_alignments(Segment& s, int64_t block, int64_t caller) {
  for (BoundValue& t : s.tensors) {
    if (t.buffer < 0) continue;
    const BufferKind kind = s.buffers[static_cast<size_t>(t.buffer)].kind;
    t.alignment = kind == BufferKind::arena || kind == BufferKind::constant ? block : caller;
    while (t.offset % t.alignment != 0) t.alignment /= 2;
  }
}

void share_in_place(Segment& s) {
  find_lifetimes(s);
  Members members(s);
  const auto merge = [&](int32_t from, int32_t into, int64_t offset) {
    members.merge(s, from, into, offset);
    Buffer &gone = s.buffers[static_cast<size_t>(from)], &both = s.buffers[static_cast<size_t>(into)];
    both.first = std::min(both.first, gone.first);
    both.last = std::max(both.last, gone.last);
    gone.first = std::numeric_limits<int>::max(), gone.last = -1;
  };
  for (size_t at = 0; at < s.steps.size(); ++at) {
    const Step& step = s.steps[at];
    if (step.kind != StepKind::kernel || step.outputs.size() != 1 || step.outputs[0] == absent) continue;
    const TensorIndex y = step.outputs[0];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const TensorIndex x = step.inputs[i];
      if (x == absent || s.buffer(x).kind != BufferKind::arena || s.buffer(x).last != static_cast<int>(at)) continue;
      if (!same_form(s.tensor(x), s.tensor(y)) || !in_place(step, i)) continue;
      const int32_t xb = s.tensor(x).buffer, yb = s.tensor(y).buffer;
      // Another input in the same buffer would be overwritten at another place than it is read.
      const bool alone =
          std::ranges::count_if(step.inputs, [&](TensorIndex t) { return t != absent && s.tensor(t).buffer == xb; }) == 1;
      if (xb == yb || !alone) continue;
      // The kernels were chosen for these alignments.
      if (is_whole(s, y) && s.tensor(x).alignment >= s.tensor(y).alignment) {
        merge(yb, xb, s.tensor(x).offset);
      } else if (is_whole(s, x) && s.tensor(y).alignment >= s.tensor(x).alignment) {
        // y's part of its buffer belongs to y alone until this step: slices of a concatenation are disjoint.
        merge(xb, yb, s.tensor(y).offset);
      } else {
        continue;
      }
      break;
    }
  }
}

void place_buffers(Segment& s, int64_t alignment) {
  for (Step& step : s.steps) {
    const int64_t bytes = workspace(step);
    if (bytes == 0) continue;
    step.workspace = static_cast<int32_t>(s.buffers.size());
    s.buffers.push_back({.kind = BufferKind::arena, .bytes = bytes});
  }
  find_lifetimes(s);
  std::vector<Lifetime> blocks;
  std::vector<size_t> which;
  for (size_t i = 0; i < s.buffers.size(); ++i) {
    const Buffer& b = s.buffers[i];
    if (b.kind != BufferKind::arena || b.bytes == 0 || b.last < 0) continue;
    blocks.push_back({b.bytes, b.first, b.last});
    which.push_back(i);
  }
  const ArenaPlan plan = plan_arena(blocks, alignment);
  for (size_t i = 0; i < which.size(); ++i) s.buffers[which[i]].offset = plan.offsets[i];
  s.arena = plan.bytes;
}

std::vector<StepMemory> held_by_step(const Segment& s) {
  StepMemory throughout;
  for (const Buffer& b : s.buffers)
    if (b.kind == BufferKind::external || b.kind == BufferKind::result) throughout.bound += b.bytes;
  std::vector<StepMemory> held(s.steps.size(), throughout);
  std::vector<bool> is_workspace(s.buffers.size(), false);
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (s.steps[i].workspace < 0) continue;
    const auto buffer = static_cast<size_t>(s.steps[i].workspace);
    is_workspace[buffer] = true;
    held[i].workspace += s.buffers[buffer].bytes;
  }
  std::vector<int64_t> change(s.steps.size() + 1, 0);  // from the step before
  for (size_t i = 0; i < s.buffers.size(); ++i) {
    const Buffer& b = s.buffers[i];
    if (b.kind != BufferKind::arena || b.bytes == 0 || is_workspace[i] || b.last < b.first) continue;
    change[static_cast<size_t>(b.first)] += b.bytes;
    change[static_cast<size_t>(b.last) + 1] -= b.bytes;
  }
  int64_t activations = 0;
  for (size_t i = 0; i < held.size(); ++i) held[i].activations += activations += change[i];
  return held;
}

std::string arena_text(const Segment& s) {
  const std::vector<StepMemory> held = held_by_step(s);
  const auto own = [](const StepMemory& m) { return m.activations + m.workspace; };
  const auto fullest = std::ranges::max_element(held, {}, own);
  if (fullest == held.end()) return "the arena of activations";
  const Step& step = s.steps[static_cast<size_t>(fullest - held.begin())];
  return fmt::format("{}: values and workspaces take {} bytes then, the arena of activations {}",
                     step.node ? ops::label(*step.node) : "a copy", own(*fullest), s.arena);
}

void check_arena(const Segment& s) {
  try {
    check_available(s.arena, DType::u8, {s.arena});
  } catch (const Error& e) {
    throw e.at(arena_text(s));
  }
}

}  // namespace smelt::plan

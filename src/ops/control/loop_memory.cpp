#include "ops/control/loop_memory.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/memory.h"

namespace smelt::ops {
namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max();
constexpr const char* advice =
    "Bind smaller extents (--shapes), have the loop run fewer iterations, or allow more (--memory-limit).";

int64_t sum(int64_t a, int64_t b) {
  int64_t s = 0;
  return __builtin_add_overflow(a, b, &s) ? most : s;
}

int64_t product(int64_t a, int64_t b) {
  int64_t p = 0;
  return __builtin_mul_overflow(a, b, &p) ? most : p;
}

/// Of strings without their characters.
int64_t bytes_of_strings(int64_t count) { return product(count, static_cast<int64_t>(sizeof(std::string))); }

int64_t bytes_of(const KnownValue& v) {
  return v.type == DType::string ? bytes_of_strings(elements(v.shape)) : bytes(v.type, elements(v.shape));
}
int64_t bytes_of(const Tensor& t) { return t.type() == DType::string ? bytes_of_strings(t.size()) : t.nbytes(); }

}  // namespace

void check_scanned(int64_t bytes_each, int64_t count) {
  const int64_t all = product(sum(bytes_each, static_cast<int64_t>(sizeof(Tensor))), count);
  constexpr int64_t looked_at = int64_t{64} << 20;
  if (all < looked_at) return;
  if (const int64_t left = memory_left(); all > left / 2)  // once in parts, once together
    throw Error(fmt::format("the results of {} iterations of {} bytes each need {} bytes twice, {} are left", count, bytes_each,
                            all, left),
                advice);
}

void LoopMemory::before(int64_t i, std::span<const Tensor> in, int64_t scanned) {
  if (i == 0) return;  // its inputs are the node's own
  int64_t held = 0;
  for (size_t s = 0; s < states_; ++s) held += bytes_of(in[2 + s]);
  const GraphShapes shapes = GraphShapesScope::innermost();
  if (held + scanned < next_look_ || !shapes) return;
  next_look_ = 2 * (held + scanned);
  look_ahead(shapes, i, in, held, scanned);
}

void LoopMemory::look_ahead(GraphShapes shapes, int64_t i, std::span<const Tensor> in, int64_t held, int64_t scanned) {
  constexpr int64_t most_ahead = 1024;     // iterations; what takes more of them to fill memory takes minutes to get there
  constexpr int64_t most_elements = 4096;  // of a value that shapes may depend on
  const int64_t left = sum(memory_left(), held + scanned);
  std::vector<KnownValue> now;
  for (const Tensor& t : in)
    now.push_back({t.type(), t.shape(), t.valid() && t.size() <= most_elements && t.type() != DType::string ? t : Tensor()});
  now[1].value = in[1];
  for (const int64_t end = i < trips_ - most_ahead ? i + most_ahead : trips_; i < end; ++i) {
    now[0].value = Tensor::scalar(i).reshaped(now[0].shape);
    std::vector<TensorDesc> described;
    for (const KnownValue& v : now) described.push_back({v.type, v.shape, true, v.value.valid() ? &v.value : nullptr});
    std::optional<std::vector<KnownValue>> out;
    try {
      out = shapes(body_, described);
    } catch (const Error&) {
      return;  // the iteration itself will say it
    }
    if (!out) return;
    int64_t next = 0;
    for (size_t s = 0; s < states_; ++s) next = sum(next, bytes_of((*out)[1 + s]));
    for (size_t k = 1 + states_; k < out->size(); ++k) scanned = sum(scanned, bytes_of((*out)[k]));
    if (const int64_t needed = sum(sum(held, next), scanned); needed > left)
      throw Error(fmt::format("iteration {} needs {} bytes for what it carries, {} are left", i, needed, left), advice);
    const Tensor& go = (*out)[0].value;
    if (!unconditional_ && !go.valid()) return;
    if (!unconditional_ && (go.size() != 1 || go.to_ints()[0] == 0)) return;
    held = next;
    now[1].value = go.valid() ? go.reshaped(now[1].shape) : Tensor();
    for (size_t s = 0; s < states_; ++s) now[2 + s] = std::move((*out)[1 + s]);
  }
}

}  // namespace smelt::ops

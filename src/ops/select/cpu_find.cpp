// NonZero, Compress and Unique on the processor. NonZero and Compress count what is flagged in parts, add the counts up, and write
// each part where it belongs. Unique sorts ordered bits of the elements by their digits. How many results there are goes to the
// output behind the node's own (ops/core/data_dependent.h).
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/core/any_booleans.h"
#include "ops/core/data_dependent.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/select/offer.h"

namespace smelt::ops {
namespace {

constexpr int64_t least_part = 1 << 12;  // elements; a shorter one is not worth a thread
constexpr int64_t most_parts = 256;

int64_t parts_of(int64_t count, int threads) {
  if (threads == 1) return 1;
  return std::clamp<int64_t>(count / least_part, 1, std::min<int64_t>(most_parts, int64_t{4} * threads));
}

/// Calls f(part, begin, end) for each part of [0, count).
template <class F> void for_parts(int threads, int64_t parts, int64_t count, const F& f) {
  parallel_dynamic(threads, parts, [&](int64_t p, int) { f(p, count * p / parts, count * (p + 1) / parts); });
}

/// counts[p] becomes the sum of those before it; returns the sum of all.
int64_t add_up(int64_t* counts, int64_t parts) {
  int64_t sum = 0;
  for (int64_t p = 0; p < parts; ++p) sum += std::exchange(counts[p], sum);
  return sum;
}

/// An unsigned integer of so many bytes.
template <class F> void with_word(int64_t size, const F& f) {
  switch (size) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

// --- NonZero ------------------------------------------------------------------------------------------------------

class NonZeroKernel final : public Kernel, public TakesAnyBooleans {
 public:
  NonZeroKernel(const BoundTensor& x, int threads)
      : shape_(x.shape),
        count_(elements(x.shape)),
        size_(bytes(x.type, 1)),
        mask_(~uint64_t{0} >> (64 - 8 * size_) >> (is_float(x.type) ? 1 : 0)),  // a zero's sign does not count
        threads_(useful_threads(threads, 2 * count_)),
        parts_(parts_of(count_, threads_)) {}

  int64_t workspace() const override { return parts_ * 8; }
  bool takes_any_boolean(size_t) const override { return true; }

  void run(const Buffers& b) override {
    with_word(size_, [&]<class T>(T) {
      const T* x = static_cast<const T*>(b.inputs[0]);
      const T mask = static_cast<T>(mask_);
      auto* firsts = static_cast<int64_t*>(b.workspace);
      for_parts(threads_, parts_, count_, [&](int64_t p, int64_t begin, int64_t end) {
        int64_t found = 0;
        for (int64_t i = begin; i < end; ++i) found += (x[i] & mask) != 0;
        firsts[p] = found;
      });
      const int64_t found = add_up(firsts, parts_);
      auto* y = static_cast<int64_t*>(b.outputs[0]);
      for_parts(threads_, parts_, count_, [&](int64_t p, int64_t begin, int64_t end) {
        const int64_t next = p + 1 < parts_ ? firsts[p + 1] : found;
        put(x, mask, begin, end, y + firsts[p], next - firsts[p], found);
      });
      *static_cast<int64_t*>(b.outputs.back()) = found;
    });
  }

 private:
  /// Writes the places of [begin, end), `left` of them, a row of `found` for each axis, from y on.
  template <class T> void put(const T* x, T mask, int64_t begin, int64_t end, int64_t* y, int64_t left, int64_t found) const {
    const size_t rank = shape_.size();
    const int64_t inner = shape_.back();
    for (int64_t i = begin; left > 0;) {
      const int64_t row = i / inner, stop = std::min(end, (row + 1) * inner), first = row * inner;
      int64_t* last = y + static_cast<int64_t>(rank - 1) * found;
      int64_t n = 0;
      for (; i < stop && n < left; ++i) {  // without a branch for each element
        last[n] = i - first;
        n += (x[i] & mask) != 0 ? 1 : 0;
      }
      int64_t rest = row;
      for (size_t a = rank - 1; a-- > 0;) {
        std::fill_n(y + static_cast<int64_t>(a) * found, n, rest % shape_[a]);
        rest /= shape_[a];
      }
      y += n;
      left -= n;
    }
  }

  Shape shape_;
  int64_t count_, size_;
  uint64_t mask_;
  int threads_;
  int64_t parts_;
};

// --- Compress -----------------------------------------------------------------------------------------------------

class CompressKernel final : public Kernel, public TakesAnyBooleans {
 public:
  /// x is seen as v.outer blocks of v.extent rows of `row` bytes; the first `flags` of each may be taken.
  CompressKernel(const AxisView& v, int64_t row, int64_t flags, int threads)
      : v_(v),
        row_(row),
        flags_(flags),
        threads_(useful_threads(threads, v.outer * flags * (row + 1))),
        parts_(parts_of(flags, threads_)) {}

  int64_t workspace() const override { return (parts_ + flags_) * 8; }
  bool takes_any_boolean(size_t i) const override { return i == 1; }  // the others are copied

  void run(const Buffers& b) override {
    const auto* flag = static_cast<const uint8_t*>(b.inputs[1]);
    auto* firsts = static_cast<int64_t*>(b.workspace);
    int64_t* taken = firsts + parts_;
    for_parts(threads_, parts_, flags_, [&](int64_t p, int64_t begin, int64_t end) {
      firsts[p] = end - begin - std::count(flag + begin, flag + end, uint8_t{0});
    });
    const int64_t found = add_up(firsts, parts_);
    for_parts(threads_, parts_, flags_, [&](int64_t p, int64_t begin, int64_t) {
      // Without a branch for each flag; the part after this one has its own places.
      int64_t *to = taken + firsts[p], *const stop = taken + (p + 1 < parts_ ? firsts[p + 1] : found);
      for (int64_t i = begin; to < stop; ++i) {
        *to = i;
        to += flag[i] != 0 ? 1 : 0;
      }
    });
    *static_cast<int64_t*>(b.outputs.back()) = found;
    const auto* x = static_cast<const char*>(b.inputs[0]);
    auto* y = static_cast<char*>(b.outputs[0]);
    const int64_t grain = std::max<int64_t>(1, least_part / row_);
    parallel(threads_, v_.outer * found, grain, [&](int64_t begin, int64_t end, int) {
      if (std::has_single_bit(static_cast<uint64_t>(row_)) && row_ <= 8) {
        with_word(row_, [&]<class T>(T) {
          copy(begin, end, found, taken,
               [&](int64_t from, int64_t to) { reinterpret_cast<T*>(y)[to] = reinterpret_cast<const T*>(x)[from]; });
        });
      } else {
        copy(begin, end, found, taken,
             [&](int64_t from, int64_t to) { std::memcpy(y + to * row_, x + from * row_, static_cast<size_t>(row_)); });
      }
    });
  }

 private:
  template <class Move> void copy(int64_t begin, int64_t end, int64_t found, const int64_t* taken, const Move& move) const {
    for (int64_t to = begin; to < end;) {
      const int64_t outer = to / found, stop = std::min(end, (outer + 1) * found);
      for (; to < stop; ++to) move(outer * v_.extent + taken[to - outer * found], to);
    }
  }

  AxisView v_;
  int64_t row_, flags_;
  int threads_;
  int64_t parts_;
};

// --- Unique -------------------------------------------------------------------------------------------------------

/// The element's bits as an unsigned number in the order of the elements: both zeros are one, and every NaN is the largest.
template <class T> auto ordered(T bits, bool is_signed, bool is_floating, T infinity) {
  constexpr T sign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  const T magnitude = static_cast<T>(bits & ~sign);
  if (is_floating) {
    if (magnitude > infinity) return std::numeric_limits<T>::max();
    if (magnitude == 0) return sign;
    return static_cast<T>((bits & sign) != 0 ? ~bits : bits | sign);
  }
  return is_signed ? static_cast<T>(bits ^ sign) : bits;
}

class UniqueKernel final : public Kernel {
 public:
  UniqueKernel(const BoundNode& b, int threads)
      : count_(elements(b.inputs[0].shape)),
        type_(b.inputs[0].type),
        size_(bytes(type_, 1)),
        sorted_(b.node->get_int("sorted", 1) != 0),
        outputs_(b.node->outputs.size()),
        threads_(useful_threads(threads, 4 * count_)),
        parts_(parts_of(count_, threads_)) {}

  /// Two lists of items to sort between, then three of places.
  int64_t workspace() const override { return 2 * count_ * item_bytes() + 3 * count_ * 4 + parts_ * digits * 4 + 64; }

  void run(const Buffers& b) override {
    with_word(size_, [&]<class T>(T) { find<T>(b); });
  }

 private:
  static constexpr int64_t digits = 256;
  int64_t item_bytes() const { return size_ == 8 ? 16 : 8; }

  template <class K> struct Item {
    K key;
    uint32_t place;
  };

  /// Stable, by eight bits at a time; those that all items share take no pass. Returns where the sorted items lie.
  template <class K> Item<K>* sort(Item<K>* items, Item<K>* other, uint32_t* counts, int64_t key_bytes, K differs) const {
    for (int64_t at = 0; at < 8 * key_bytes; at += 8) {
      if ((differs >> at & 0xff) == 0) continue;
      const auto digit = [at](const Item<K>& i) { return i.key >> at & 0xff; };
      for_parts(threads_, parts_, count_, [&](int64_t p, int64_t begin, int64_t end) {
        uint32_t* own = counts + p * digits;
        std::fill_n(own, digits, 0u);
        for (int64_t i = begin; i < end; ++i) ++own[digit(items[i])];
      });
      uint32_t sum = 0;
      for (int64_t d = 0; d < digits; ++d)
        for (int64_t p = 0; p < parts_; ++p) sum += std::exchange(counts[p * digits + d], sum);
      for_parts(threads_, parts_, count_, [&](int64_t p, int64_t begin, int64_t end) {
        uint32_t* own = counts + p * digits;
        for (int64_t i = begin; i < end; ++i) other[own[digit(items[i])]++] = items[i];
      });
      std::swap(items, other);
    }
    return items;
  }

  template <class T> void find(const Buffers& b) const {
    using K = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    const T* x = static_cast<const T*>(b.inputs[0]);
    auto* items = static_cast<Item<K>*>(b.workspace);
    Item<K>* other = items + count_;
    auto* first = reinterpret_cast<uint32_t*>(other + count_);  // by group in the elements' order: the place of its first element
    uint32_t *group = first + count_, *order = group + count_, *counts = order + count_;
    const bool is_signed = is_signed_integer(), floating = is_float(type_);
    const T infinity = type_ == DType::bf16  ? static_cast<T>(0x7f80u)
                       : type_ == DType::f16 ? static_cast<T>(0x7c00u)
                       : sizeof(T) == 8      ? static_cast<T>(0x7ff0000000000000ull)
                                             : static_cast<T>(0x7f800000u);
    const K some = ordered<T>(x[0], is_signed, floating, infinity);
    std::vector<K>& differing = differing_keys<K>();
    differing.assign(static_cast<size_t>(parts_), 0);
    for_parts(threads_, parts_, count_, [&](int64_t p, int64_t begin, int64_t end) {
      K differs = 0;
      for (int64_t i = begin; i < end; ++i) {
        const K key = ordered<T>(x[i], is_signed, floating, infinity);
        items[i] = {key, static_cast<uint32_t>(i)};
        differs |= key ^ some;
      }
      differing[static_cast<size_t>(p)] = differs;
    });
    const K differs = std::accumulate(differing.begin(), differing.end(), K{0}, std::bit_or());
    const Item<K>* sorted = sort(items, other, counts, sizeof(T), differs);

    // Groups in the elements' order; a stable sort has each one's first element in front. `order`: where each begins.
    int64_t found = 0;
    for (int64_t i = 0; i < count_; ++i) {
      if (i == 0 || sorted[i].key != sorted[i - 1].key) {
        order[found] = static_cast<uint32_t>(i);
        first[found++] = sorted[i].place;
      }
    }
    const auto size_of = [&](int64_t g) { return (g + 1 < found ? order[g + 1] : static_cast<uint32_t>(count_)) - order[g]; };
    auto* y = static_cast<T*>(output(b, 0));
    auto *indices = static_cast<int64_t*>(output(b, 1)), *inverse = static_cast<int64_t*>(output(b, 2)),
         *sizes = static_cast<int64_t*>(output(b, 3));
    const auto give = [&](int64_t g, int64_t to) {
      if (y) y[to] = x[first[g]];
      if (indices) indices[to] = first[g];
      if (sizes) sizes[to] = size_of(g);
      if (inverse)
        for (int64_t i = order[g], end = i + size_of(g); i < end; ++i) inverse[sorted[i].place] = to;
    };
    if (sorted_) {
      for (int64_t g = 0; g < found; ++g) give(g, g);
    } else {
      // By first occurrence: the group that begins at a place, or none.
      constexpr uint32_t none = ~uint32_t{0};
      std::fill_n(group, count_, none);
      for (int64_t g = 0; g < found; ++g) group[first[g]] = static_cast<uint32_t>(g);
      for (int64_t i = 0, to = 0; i < count_; ++i)
        if (group[i] != none) give(group[i], to++);
    }
    *static_cast<int64_t*>(b.outputs.back()) = found;
  }

  template <class K> static std::vector<K>& differing_keys() {
    thread_local std::vector<K> keys;
    return keys;
  }

  void* output(const Buffers& b, size_t i) const { return i < outputs_ ? b.outputs[i] : nullptr; }
  bool is_signed_integer() const {
    return type_ == DType::i8 || type_ == DType::i16 || type_ == DType::i32 || type_ == DType::i64;
  }

  int64_t count_;
  DType type_;
  int64_t size_;
  bool sorted_;
  size_t outputs_;
  int threads_;
  int64_t parts_;
};

/// Nanoseconds an element, by all threads: guesses.
double estimate_us(double ns, int64_t count, int threads) { return 1 + 1e-3 * ns * static_cast<double>(count) / threads; }

}  // namespace

void offer_find_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (!is_bound_at_most(b))
    return offer.refuse("cpu", Reason::not_constant, "its outputs' shapes are known, its count is not asked for");
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const BoundTensor& x = b.inputs[0];
  const int64_t count = elements(x.shape);
  const auto add = [&](double us, auto make) { offer.candidates.push_back({"cpu", "", us, make}); };
  if (b.node->op == "NonZero") {
    add(estimate_us(1, count, machine.threads),
        [x, threads = machine.threads] { return std::make_unique<NonZeroKernel>(x, threads); });
  } else if (b.node->op == "Compress") {
    const AxisView v =
        b.node->has("axis")
            ? around_axis(x.shape, normalize_axis(b.node->get_int("axis", 0), static_cast<int64_t>(x.shape.size())))
            : AxisView{1, count, 1};
    const int64_t flags = std::min(v.extent, b.inputs[1].shape[0]), row = v.inner * bytes(x.type, 1);
    add(estimate_us(0.3, v.outer * flags * row, machine.threads),
        [v, row, flags, threads = machine.threads] { return std::make_unique<CompressKernel>(v, row, flags, threads); });
  } else {
    add(estimate_us(30, count, machine.threads),
        [b, threads = machine.threads] { return std::make_unique<UniqueKernel>(b, threads); });
  }
}

}  // namespace smelt::ops

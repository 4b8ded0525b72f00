#include "ops/reference_only/random_generator.h"

#include <atomic>
#include <cmath>

#include "base/number.h"

namespace smelt::ops {
namespace {

uint32_t fresh_seed() {
  static std::atomic<uint32_t> next{std::random_device{}()};
  return next.fetch_add(0x9e3779b9u);  // 2^32 / golden ratio: no repeat for 2^32 calls
}

}  // namespace

uint32_t seed_of(const Node& node) {
  const auto it = node.attrs.find("seed");
  if (it == node.attrs.end()) return fresh_seed();
  if (const auto* i = std::get_if<int64_t>(&it->second)) return static_cast<uint32_t>(*i);  // Dropout's is an integer
  const auto* f = std::get_if<float>(&it->second);
  return f ? static_cast<uint32_t>(truncated(*f)) : 0;
}

Generator::Generator(const Node& node) : engine_(seed_of(node)) {}

double Generator::uniform() {
  const uint32_t high = engine_() >> 5, low = engine_() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

double Generator::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  double x, y, square;
  do {
    x = 2 * uniform() - 1;
    y = 2 * uniform() - 1;
    square = x * x + y * y;
  } while (square >= 1 || square == 0);
  const double factor = std::sqrt(-2 * std::log(square) / square);
  spare_ = x * factor;
  has_spare_ = true;
  return y * factor;
}

}  // namespace smelt::ops
